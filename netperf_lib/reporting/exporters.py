"""The report as exporters of nbconvert: ``jupyter nbconvert --to netperf_pdf``."""

from __future__ import annotations

from typing import Any

from nbconvert.exporters.exporter import Exporter
from traitlets import Bool, List

from .pdf import source, typeset

__all__ = ["TypstExporter", "TypstPDFExporter"]


class TypstExporter(Exporter):
    """Notebook to Typst source; the files that the source reads are in ``resources["outputs"]``."""

    export_from_notebook = "Report as Typst source"
    output_mimetype = "text/x-typst"
    code = Bool(default_value=False, help="show the code too").tag(config=True)
    contents = Bool(default_value=True, help="show the contents after the first page").tag(config=True)

    def _file_extension_default(self) -> str:
        return ".typ"

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[Any, Any]:
        """Convert a notebook; see nbconvert's `Exporter.from_notebook_node`."""
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        # nbconvert writes what a document needs into a folder next to it
        beside = resources.get("output_files_dir")
        text, files = source(nb, beside=f"{beside}/" if beside else "", **self._options(resources))
        resources["outputs"] = {**(resources.get("outputs") or {}), **files}
        return text, resources

    def _options(self, resources: Any) -> dict[str, Any]:
        known = resources.get("metadata", {})
        name = known.get("name") or "Report"
        return {"name": name, "base": known.get("path"), "code": self.code, "contents": self.contents}


class TypstPDFExporter(TypstExporter):
    """Notebook to a tagged PDF (PDF/UA-1) through Typst."""

    export_from_notebook = "Report as PDF (Typst)"
    output_mimetype = "application/pdf"
    pdf_standards = List(["ua-1"], help="standards that the PDF must meet").tag(config=True)

    def _file_extension_default(self) -> str:
        return ".pdf"

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[Any, Any]:
        """Convert a notebook; see `typeset`."""
        nb, resources = Exporter.from_notebook_node(self, nb, resources, **kw)
        return typeset(nb, standards=self.pdf_standards, **self._options(resources)), resources
