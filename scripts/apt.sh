# Sourced by the set-up scripts.

# Installs Debian packages without asking. Fails, silently, where apt or the right to use it is missing.
apt_install() {
    local root=()
    command -v apt-get > /dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2> /dev/null || return 1
        root=(sudo -n)
    fi
    "${root[@]}" apt-get -qq update > /dev/null \
        && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" > /dev/null
}
