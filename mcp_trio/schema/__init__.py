"""JSON Schema 2020-12: from Python signatures, and enforced where a schema arrives as JSON.

``arguments_of`` turns a handler's signature into an input schema and a binder, ``output_of``
turns a return annotation into an output schema and an encoder, ``compile_schema`` turns a
schema that somebody else wrote into a bounded validator that never touches the network.
"""

from __future__ import annotations

from mcp_trio.schema.forms import Form, form_of
from mcp_trio.schema.outputs import Output, output_of, return_annotation
from mcp_trio.schema.signature import Arguments, arguments_of, describe
from mcp_trio.schema.validate import Validator, compile_schema

__all__ = [
    "Arguments",
    "Form",
    "Output",
    "Validator",
    "arguments_of",
    "compile_schema",
    "describe",
    "form_of",
    "output_of",
    "return_annotation",
]
