# Sourced by the scripts beside it: `set_up run` or `set_up dev` makes .venv hold that lock and this project.
#
# Needs Python 3.11 or newer and nothing else. Does nothing where .venv is up to date. Installs only what stands in
# requirements/*.txt with its hash: the tool that builds the project and the installer are in there too.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$project/.venv

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "Python 3.11 or newer is needed; it was not found. Set PYTHON=/path/to/python3.11 if it is somewhere else." >&2
  return 1
}

make_venv() {
  local python
  python=$(find_python)
  rm -rf "$venv"
  "$python" -m venv "$venv" || {
    rm -rf "$venv"
    echo "$python could not make a virtual environment (on Debian: apt install python3-venv)." >&2
    return 1
  }
}

install() { # LOCK ARGUMENT...: uv where its wheel fits this machine, else pip: both take these arguments
  local lock=$1 uv=$venv/bin/uv
  shift
  if [ ! -x "$uv" ]; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
      --require-hashes --requirement <(sed -n '/^uv==/,/[^\]$/p' "$lock") 2>/dev/null || true
  fi
  VIRTUAL_ENV=$venv "$uv" --no-config --system-certs pip install --quiet "$@" 2>/dev/null ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

usable() { # a Python new enough, in a folder that was not moved since (its commands hold their own path)
  "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
    grep -qF "$venv" "$venv/bin/activate"
}

holds() { # SET: the lock and the project are installed as they are now
  [ "$(cat "$venv/.saga-mcp-$1" 2>/dev/null)" = "$(state "$1")" ]
}

state() {
  cat "$project/requirements/$1.txt" "$project/pyproject.toml" | cksum
}

set_up() { # run | dev, which holds all of run
  local lock=$project/requirements/$1.txt
  usable || make_venv
  if holds dev || holds "$1"; then
    return
  fi
  echo "Setting up $venv (once; about a minute) ..." >&2
  install "$lock" --require-hashes --requirement "$lock"
  install "$lock" --no-deps --no-build-isolation --editable "$project"
  state "$1" >"$venv/.saga-mcp-$1"
}
