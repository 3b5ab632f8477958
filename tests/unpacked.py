"""Archives of the tests, unpacked."""

import tarfile


def unpack(path, folder):
    """Unpack an archive into a folder, as Python 3.14 does by itself; 3.11.2 has no filters."""
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = staticmethod(tarfile.data_filter)
        archive.extractall(folder)
