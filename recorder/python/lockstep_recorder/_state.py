"""State that all parts of the recorder share."""
import threading

here = threading.local()  # `is_busy`: the recorder itself runs in this thread. And how deep the thread is in what nests.
recorder = None  # The one of this process, once it records.
