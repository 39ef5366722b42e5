"""Makes the pictures of the report and of the page for the browser, as README and the pages show them.

    python -m venv .cache/pictures-env
    .cache/pictures-env/bin/python -m pip install PyQt6-WebEngine
    .cache/pictures-env/bin/python docs/make_pictures.py RUN_FOLDER [docs/pictures]

It needs PyQt6-WebEngine, a Chromium that the registry has for every system, and nothing of optim. RUN_FOLDER is what
``optim run`` left, here that of ``make demo``; its report.html is drawn as wide as a desk shows it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

PICTURES = (("report.png", 1080, 1180),)
"""What a picture is called, how wide the page is, and how much of its height is shown."""
_SETTLES_MS = 800
"""From the end of loading to what is drawn; a page without scripts needs less."""
_MOST_BYTES = 200_000


def draw(page: Path, picture: Path, width: int, height: int) -> None:
    """Draws the top of a page, in a process of its own: a second view after a first one ends Qt.

    Args:
        page: a file of HTML.
        picture: where the PNG goes.
        width: of the page, in pixels.
        height: of the picture, in pixels.
    """
    from PyQt6.QtCore import QTimer, QUrl
    from PyQt6.QtWebEngineCore import QWebEngineSettings
    from PyQt6.QtWebEngineWidgets import QWebEngineView
    from PyQt6.QtWidgets import QApplication

    application = QApplication(sys.argv[:1])
    view = QWebEngineView()
    view.resize(width, height)
    settings = view.settings()
    assert settings is not None
    settings.setAttribute(QWebEngineSettings.WebAttribute.ShowScrollBars, False)

    def grab() -> None:
        view.grab().save(str(picture))
        application.quit()

    view.loadFinished.connect(lambda loaded: QTimer.singleShot(_SETTLES_MS, grab) if loaded else application.exit(1))
    view.load(QUrl.fromLocalFile(str(page.resolve())))
    view.show()
    if application.exec():
        raise SystemExit(f"{page} cannot be shown")


def main() -> None:
    """Draw every picture."""
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--no-sandbox --disable-gpu --hide-scrollbars")
    page = Path(sys.argv[1]) / "report.html"
    folder = Path(sys.argv[2] if len(sys.argv) == 3 else "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, width, height in PICTURES:
        one = multiprocessing.get_context("spawn").Process(target=draw, args=(page, folder / name, width, height))
        one.start()
        one.join()
        if one.exitcode:
            raise SystemExit(f"{name} was not drawn: exit status {one.exitcode}")
        size = (folder / name).stat().st_size
        print(f"{folder / name}: {size / 1000:.0f} kB")
        if size > _MOST_BYTES:
            raise SystemExit(f"that is more than {_MOST_BYTES / 1000:.0f} kB, which a README should not carry")


if __name__ == "__main__":
    main()
