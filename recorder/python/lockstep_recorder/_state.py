"""State that all parts of the recorder share."""
import threading
import types

here = threading.local()  # `is_busy`: the recorder itself runs in this thread. And how deep the thread is in what nests.
everywhere = types.SimpleNamespace()  # The same of a backward, parts of which run in other threads.
recorder = None  # The one of this process, once it records.
