"""A notebook as one HTML page that asks nobody for anything: no script, no style, no font from elsewhere."""

from __future__ import annotations

from typing import Any

from jinja2 import pass_context
from nbconvert import HTMLExporter

from .pdf import MARKDOWN, run_pandoc

__all__ = ["PageExporter"]

TEMPLATE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block extra_css -%}
<style>main { max-width: 64em; margin: 0 auto; padding: 1em }</style>
{%- endblock -%}
"""
"""JupyterLab's looks, without the scripts that it would fetch: formulas are MathML, which browsers set themselves."""


class PageExporter(HTMLExporter):
    """Notebook to HTML that can be mailed, archived and opened without a network."""

    def __init__(self, *, code: bool = False, **kw: Any) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # nbconvert has no types
            exclude_input=not code,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
            embed_images=True,
            raw_template=TEMPLATE,
            **kw,
        )

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Render the markdown of a cell; what Jupyter leaves to a script (formulas) is rendered by pandoc."""
        if "$" not in source:
            return str(super().markdown2html(context, source))
        return run_pandoc(source, MARKDOWN, to="html")
