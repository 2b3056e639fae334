"""Pictures of the report in docs/howto/report.md; ``python docs/pictures/report.py`` takes them (needs chromium)."""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aptset

FOLDER = Path(__file__).parents[1]
PICTURES = {"report-light.png": ("light", 1280, 1130), "report-dark-phone.png": ("dark", 390, 1700)}


def main() -> None:
    """Make the report of the page, and take its pictures."""
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    forest = RandomForestClassifier(random_state=0)
    classifier = aptset.ConformalClassifier(forest, random_state=0).fit(X_train, y_train)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        aptset.report(classifier, X_test, y_test, path, title="Digits")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, width, height) in PICTURES.items():
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height})
            page.goto(path.as_uri())
            page.wait_for_timeout(1000)  # until the figures are drawn
            page.screenshot(path=FOLDER / name)
            Image.open(FOLDER / name).convert("RGB").quantize(256).save(FOLDER / name, optimize=True)  # a third as long
        browser.close()


if __name__ == "__main__":
    main()
