"""Memory in files that have no name, and addresses that are chosen: these tests need Linux."""

import sys

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]
