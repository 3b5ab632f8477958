"""What does the network between two VMs really give me?"""

from .errors import NetperfError
from .model import Contrast, Deployment, Experiment, Host, ParsedRun
from .stats.family import Family, compare
from .store import Store, ingest, load

__all__ = [
    "Contrast",
    "Deployment",
    "Experiment",
    "Family",
    "Host",
    "NetperfError",
    "ParsedRun",
    "Store",
    "compare",
    "ingest",
    "load",
]
__version__ = "0.1.0"
