"""Reads `saga.toml`. Only the composition root and the command import this; everything below gets frozen values."""

from saga_mcp.config.alerts import Receiver
from saga_mcp.config.load import LoadedConfig, Survey, load_config, survey_config
from saga_mcp.config.problems import ConfigError, ConfigInvalid, ConfigMissing, ConfigProblem, report
from saga_mcp.config.schema import config_schema
from saga_mcp.config.source import find_config

__all__ = [
    "ConfigError",
    "ConfigInvalid",
    "ConfigMissing",
    "ConfigProblem",
    "LoadedConfig",
    "Receiver",
    "Survey",
    "config_schema",
    "find_config",
    "load_config",
    "report",
    "survey_config",
]
