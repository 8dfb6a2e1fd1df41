"""``python -m mcp_trio`` and the ``mcp-trio`` command."""

from __future__ import annotations

import sys

from mcp_trio.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
