"""What the network checks of guest-machines.sh reach: www.test (HTTP), api.test (HTTPS, with a key), raw.test (bytes)."""
import hashlib
import http.server
import socket
import ssl
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key = self.headers.get("Authorization")
        if key:
            print("key:", "right" if key == "Bearer value-of-the-secret" else "wrong", flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"served\n")

    def log_message(self, *words):
        pass


def raw(sock):
    """"sum": hashes all until the end and answers; "flood": sends without end."""
    with sock:
        try:
            word = sock.recv(5, socket.MSG_WAITALL)
            while word == b"flood":
                sock.sendall(b"x" * 65536)
            digest = hashlib.sha256()
            while data := sock.recv(65536):
                digest.update(data)
            sock.sendall(digest.hexdigest().encode())
        except OSError:
            pass


def serve_raw(listener):
    while True:
        threading.Thread(target=raw, args=(listener.accept()[0],), daemon=True).start()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


www = Server(("127.0.0.1", 8099), Handler)
api = Server(("127.0.0.1", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/guest/api.crt", "/guest/api.key")
api.socket = context.wrap_socket(api.socket, server_side=True)
threading.Thread(target=www.serve_forever, daemon=True).start()
threading.Thread(target=serve_raw, args=(socket.create_server(("127.0.0.1", 8098), backlog=256),), daemon=True).start()
print("ready", flush=True)
api.serve_forever()
