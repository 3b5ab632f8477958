"""TCP buffers of a host: set, verified, and put back, after a crash too.

The limits lie in two settings of the kernel, ``tcp_rmem`` and ``tcp_wmem`` (smallest, first and largest size). Before
the first change the host itself keeps the values found; whoever meets the host next puts them back. They are kept
where a restart of the host empties, as it does the settings themselves.
"""

from __future__ import annotations

__all__ = ["CHANGED", "INSTALL", "RESTORE", "SET"]

CHANGED = "[ -e /run/netperf_lib.tcp_buffers ]"
"""Whether there is something to put back; anybody may ask."""

SET = r"""
keep=/run/netperf_lib.tcp_buffers
cd /proc/sys/net/ipv4 || exit 1
if [ ! -e $keep ]; then
  for s in tcp_rmem tcp_wmem; do echo "$s $(cat $s)"; done >$keep.new || exit 1
  mv $keep.new $keep || exit 1
fi
while read -r s low first _; do
  [ "$first" -gt "$1" ] && first=$1
  [ "$low" -gt "$1" ] && low=$1
  echo "$low $first $1" >$s || exit 1
  now=$(echo $(cat $s))
  [ "$now" = "$low $first $1" ] || { echo "$s became $now, not $low $first $1" >&2; exit 1; }
done <$keep
"""
"""Let TCP buffers grow to ``$1`` bytes, both to send and to receive; needs root."""

RESTORE = r"""
keep=/run/netperf_lib.tcp_buffers
[ -e $keep ] || exit 0
cd /proc/sys/net/ipv4 || exit 1
while read -r s low first high; do
  [ "$(echo $(cat $s))" = "$low $first $high" ] || echo "$low $first $high" >$s || exit 1
  now=$(echo $(cat $s))
  [ "$now" = "$low $first $high" ] || { echo "$s became $now, not $low $first $high" >&2; exit 1; }
done <$keep
rm $keep
"""
"""Put back what `SET` found, where that is not what stands there; needs root."""

INSTALL = r"""
export DEBIAN_FRONTEND=noninteractive
if command -v apt-get; then
  apt-get install -y -qq --no-install-recommends "$1" || {
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"
  }
elif command -v dnf; then dnf install -y -q "$1"
elif command -v yum; then yum install -y -q "$1"
elif command -v zypper; then zypper --non-interactive install "$1"
else echo "no known package manager (apt-get, dnf, yum, zypper)" >&2; false
fi >/dev/null
"""
"""Install the package ``$1``, with the list of packages brought up to date where it is not found; needs root."""
