"""The connections of a server of the lab, and whether it has heard everything that was said to it by those who are gone.

A test looks at what arrived when the run is over. By then all bytes are in the kernel, but on a busy machine a thread of the
server may not have taken them yet: catch_up() waits for it."""

import select
import socket
import threading
import time

ESTABLISHED = 1  # of the kernel's TCP states: the peer has neither closed nor reset it


class Conversations:
    def __init__(self):
        self.lock = threading.Lock()
        self.open = set()  # a second descriptor of each connection: wrapping one in TLS takes the first away
        self.listeners = {}  # listener: whether its thread waits for somebody

    def accept(self, listener, talk):
        """Calls talk(socket, peer) in a thread of its own for each who connects; returns when the listener is closed."""
        self.listeners[listener] = False
        ready = select.poll()
        ready.register(listener, select.POLLIN)
        while True:
            # It looks before it takes: who has been seen but is not counted yet still makes the listener readable.
            self.listeners[listener] = True
            try:
                ready.poll()
                self.listeners[listener] = False
                sock, peer = listener.accept()
            except OSError:
                del self.listeners[listener]
                return
            with self.lock:
                self.open.add(other := sock.dup())
            threading.Thread(target=self.hold, args=(talk, sock, peer, other), daemon=True).start()

    def hold(self, talk, sock, peer, other):
        try:
            talk(sock, peer)
        finally:
            sock.close()
            with self.lock:
                self.open.discard(other)
                other.close()

    def behind(self):
        """Is there anybody who waits to be taken, or who has left and was not heard to the end?"""
        listeners = dict(self.listeners)
        ready = select.poll()
        for listener in listeners:
            if listener.fileno() >= 0:
                ready.register(listener, select.POLLIN)
        if not all(listeners.values()) or ready.poll(0):
            return True
        with self.lock:
            return any(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != ESTABLISHED for s in self.open)

    def catch_up(self):
        end = time.monotonic() + 60
        while self.behind():
            assert time.monotonic() < end, "a server of the lab has stopped"
            time.sleep(0.002)
