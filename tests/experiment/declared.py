"""Tests as experiments declare them."""

TCP = {"tool": "iperf3", "test": "tcp"}
LATENCY = {"tool": "qperf", "test": "tcp_lat"}
PING = {"tool": "sockperf", "test": "ping-pong"}
