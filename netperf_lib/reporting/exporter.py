"""The report as an exporter of nbconvert, which JupyterLab offers under "Save and Export Notebook As"."""

from __future__ import annotations

from typing import Any

from nbconvert.exporters.exporter import Exporter
from traitlets import Bool, List

from .pdf import typeset


class TypstPDFExporter(Exporter):
    """Notebook to a tagged PDF (PDF/UA-1): ``jupyter nbconvert --to netperf_pdf``."""

    export_from_notebook = "Report as PDF"
    output_mimetype = "application/pdf"
    code = Bool(default_value=False, help="show the code too").tag(config=True)
    contents = Bool(default_value=True, help="show the contents after the first page").tag(
        config=True
    )
    pdf_standards = List(["ua-1"], help="standards that the PDF must meet").tag(config=True)

    def _file_extension_default(self) -> str:
        return ".pdf"

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> tuple[Any, Any]:
        """Convert a notebook; see `typeset`."""
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        metadata = resources.get("metadata", {})
        options = {"name": metadata.get("name") or "Report", "base": metadata.get("path")}
        pdf = typeset(
            nb, standards=self.pdf_standards, code=self.code, contents=self.contents, **options
        )
        return pdf, resources
