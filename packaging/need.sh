# SPDX-License-Identifier: BSD-3-Clause
# need COMMAND PACKAGE, need_file FILE PACKAGE: installs the Debian package of a command or file that is missing, as root;
# else exits with status 77.
need() {
  command -v "$1" >/dev/null 2>&1 || install_package "$2"
  command -v "$1" >/dev/null 2>&1 || missing "$@"
}
need_file() {
  [ -e "$1" ] || install_package "$2"
  [ -e "$1" ] || missing "$@"
}
install_package() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  apt-get -q update >/dev/null 2>&1 || true
  apt-get -q install -y --no-install-recommends "$1" >/dev/null 2>&1 || true
}
missing() {
  echo "$(basename "$0"): $1 is missing (Debian package $2)" >&2
  exit 77
}
