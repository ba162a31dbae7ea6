"""A process in the place of Mesa's compiler: it ends, waits, refuses or gives the text back."""

import os
import time

from treadle.child import parent


def serve():
    with parent() as above:
        while True:
            try:
                chip, text = above.receive()
            except EOFError:
                return
            if text == "abort":
                os.abort()
            if text == "exit":
                os._exit(3)
            if text == "wait":
                time.sleep(60)
            above.send("refused" if text == "refuse" else f"{chip} {text}".encode())
