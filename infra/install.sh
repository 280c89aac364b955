#!/bin/sh
# Installs labeldp and what it needs into a virtual environment, for `make install`.
#
#   infra/install.sh VENV
#
# uv gets pip's certificates, so that both work behind a proxy that inspects TLS.
# Without a way to the package index, what uv has kept from an earlier time is used. Bytecode is
# written here and not by the first start, which would take half a minute, nor by every worker.
set -eu

python=$1/bin/python
uv=$1/bin/uv

if [ ! -x "$uv" ] && ! "$python" -m pip install --quiet --disable-pip-version-check uv; then
    if ! uv=$(command -v uv); then
        echo "pip can't get uv, which installs the rest: no package index can be reached, or" \
            "its certificate is not trusted; name the proxy's certificates with" \
            "PIP_CERT=FILE, or put a uv on the PATH" >&2
        exit 1
    fi
    echo "pip can't get uv; $uv is used" >&2
fi

# Settings of `pip config` and pip's variables; uv has one variable for them.
certificates=${SSL_CERT_FILE:-${PIP_CERT:-$("$python" -m pip config get global.cert 2>/dev/null || true)}}
if [ -n "$certificates" ]; then
    export SSL_CERT_FILE="$certificates"
fi
# Beside those, the system's. uv has called that by two names, and warns of the older one.
if "$uv" pip install --help 2>/dev/null | grep -q -e --system-certs; then
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
else
    export UV_NATIVE_TLS="${UV_NATIVE_TLS:-true}"
fi

install() {
    "$uv" pip install --quiet --compile-bytecode --python "$python" \
        --constraint constraints.txt --editable '.[dev]' "$@"
}

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
if ! install 2>"$errors"; then
    if ! install --offline 2>/dev/null; then
        cat "$errors" >&2
        exit 1
    fi
    echo "no package index can be reached; installed from what uv has kept on this machine" >&2
fi
"$python" -m compileall -q labeldp/ mechanisms trainers platform
