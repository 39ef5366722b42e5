"""Jobs of a plugin without libraries, good and bad ones."""

import errno
import os
import sys
import time


def echo(request, host):
    return request


def pid(request, host):
    return os.getpid()


def abort(request, host):
    os.abort()


def hang(request, host):
    time.sleep(600)


def prints(request, host):
    print('{"result": 1}', flush=True)
    os.write(1, b'{"result": 2}\n')
    return "fine"


def garbage(request, host):
    host._talk._connection.send_bytes(b"nonsense")
    time.sleep(600)


def asks(request, host):
    host.report_progress(0.5, "half")
    return [host.call("double", number) for number in request]


def fails(request, host):
    raise ValueError("the true cause")


def exits(request, host):
    sys.exit(0)


def disk_is_full(request, host):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")
