"""Which versions of the measuring tools are asked for, by the release of the image."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ._options import Options

__all__ = ["pinned"]

# sockperf is not packaged there: the first start builds it from a fixed commit
_ENTERPRISE_9 = {"iperf": "2.1.6-*", "iperf3": "3.9-*", "qperf": "0.4.9-*"}
# What each release ships, read off packages.ubuntu.com, packages.debian.org, packages.fedoraproject.org (EPEL) and, for
# iperf3 of Enterprise Linux 9, lists of installed packages. The upstream version is pinned, not the build: a security
# rebuild of the same version replaces the one before in the archives, and measures the same.
PINS: tuple[tuple[str, Mapping[str, str]], ...] = (
    (
        "canonical:ubuntu-24_04-*",
        {"iperf": "2.1.9+*", "iperf3": "3.16-*", "qperf": "0.4.11-*", "sockperf": "3.7-*"},
    ),
    (
        "canonical:*-jammy:*",
        {"iperf": "2.1.5+*", "iperf3": "3.9-*", "qperf": "0.4.11-*", "sockperf": "3.7-*"},
    ),
    (
        "debian:debian-13*",
        {"iperf": "2.2.1+*", "iperf3": "3.18-*", "qperf": "0.4.11-*", "sockperf": "3.7-*"},
    ),
    (
        "debian:debian-12*",
        {"iperf": "2.1.8+*", "iperf3": "3.12-*", "qperf": "0.4.11-*", "sockperf": "3.7-*"},
    ),
    ("almalinux:almalinux-*:9*", _ENTERPRISE_9),
    ("redhat:rhel:9*", _ENTERPRISE_9),
)
"""Beginning of publisher:offer:sku, in lower case, to package to version with a final ``*``."""


def pinned(options: Options) -> dict[str, str]:
    """Package to the version to install, exact or with a final ``*``.

    What the experiment asks for comes before what is known of the image's release; ``*`` alone leaves the choice to the
    distribution. Empty for releases that are not known here.
    """
    image = options.image.lower()
    known = next((pins for pattern, pins in PINS if fnmatchcase(image, f"{pattern}*")), {})
    return {p: v for p, v in {**known, **options.versions}.items() if v != "*"}
