"""The server face: what a server offers, and how requests find their handlers."""

from __future__ import annotations

from .refusals import resource_not_found, url_elicitation_required
from .registry import Server
from .serve import serve_http, serve_stdio, serve_stream, serve_transport

__all__ = [
    "Server",
    "resource_not_found",
    "serve_http",
    "serve_stdio",
    "serve_stream",
    "serve_transport",
    "url_elicitation_required",
]
