"""Arguments and conditions written as `${CEL}` in the config (DESIGN.md 5.1, S11.3).

Pure: no I/O, no clock. It lives in `tools` because it fills in calls to tools, and knows no saga. The config layer
compiles what it reads; the engine binds.
"""

from saga_mcp.tools.binding.errors import CannotBind, Fault, Problem, TemplateError, Why
from saga_mcp.tools.binding.template import Condition, Placed, Template, compile_condition, compile_template
from saga_mcp.tools.binding.values import Path

__all__ = [
    "CannotBind",
    "Condition",
    "Fault",
    "Path",
    "Placed",
    "Problem",
    "Template",
    "TemplateError",
    "Why",
    "compile_condition",
    "compile_template",
]
