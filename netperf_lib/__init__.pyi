# Names that people type, and where they are; `__init__.py` imports them when they are first used.

from . import hosts as hosts
from . import plots as plots
from . import questions as questions
from . import stats as stats
from .data.imports import import_logs as import_logs
from .data.ingest import ingest as ingest
from .data.layout import experiments as experiments
from .data.load import load as load
from .data.load import read as read
from .data.load import scan as scan
from .data.logs import parse as parse
from .data.logs import parse_text as parse_text
from .data.shipped import recorded as recorded
from .data.verify import verify as verify
from .hosts.prerequisites import doctor as doctor
from .pipeline import bundle as bundle
from .pipeline import collect as collect
from .pipeline import down as down
from .pipeline import plan as plan
from .pipeline import run as run
from .pipeline import up as up
from .questions.compare import compare as compare
from .questions.export import export as export
from .questions.limits import limits as limits
from .questions.observe import levels as levels
from .questions.observe import observe as observe
from .reporting import report as report
from .reporting import workshop as workshop
from .reporting.answer import ask as ask
from .reporting.explorer import explore as explore
from .reporting.summary import summary as summary

__version__: str
