"""The server face: what a server offers, and how requests find their handlers."""

from __future__ import annotations

from .registry import Server
from .serve import serve_stdio, serve_stream, serve_transport

__all__ = ["Server", "serve_stdio", "serve_stream", "serve_transport"]
