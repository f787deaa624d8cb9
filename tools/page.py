#!/usr/bin/python3
"""The page of `trident serve` in Chromium: types into the fields, presses the button, reads the bars, compares them
with the answer to the curl line that the page shows, and keeps pictures (light, dark and narrow) to be looked at.

    tools/page.py BUILD RUN [FOLDER]       Debian: chromium chromium-driver python3-selenium
"""
import json
import re
import subprocess
import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


def browser(dark, width, height):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}"):
        options.add_argument(flag)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    return webdriver.Chrome(options=options)


def bars(page):
    """Label and probability of each bar: the text, and the width that is drawn."""
    found = []
    for item in page.find_elements(By.CSS_SELECTOR, "#answer li"):
        label, percent = (part.text for part in item.find_elements(By.CSS_SELECTOR, ".name span"))
        track, bar = item.find_element(By.CLASS_NAME, "track"), item.find_element(By.CLASS_NAME, "bar")
        found.append((label, float(percent.rstrip(" %")) / 100, bar.size["width"] / track.size["width"]))
    return found


def try_page(address, picture, dark, width, height):
    page = browser(dark, width, height)
    try:
        page.get(address)
        wait = WebDriverWait(page, 10)
        wait.until(lambda p: p.find_elements(By.CSS_SELECTOR, "[data-column]"))
        text = page.find_element(By.CSS_SELECTOR, "textarea, [data-kind=number]")
        text.clear()
        text.send_keys("It's \"late\", and the box was bad" if text.tag_name == "textarea" else "2")
        page.find_element(By.ID, "go").click()
        wait.until(lambda p: p.find_elements(By.CSS_SELECTOR, "#answer .bar"))
        WebDriverWait(page, 2).until(lambda p: abs(bars(p)[0][1] - bars(p)[0][2]) < 0.02)  # the bar has grown
        shown = bars(page)
        line = page.find_element(By.ID, "curl").text
        answer = json.loads(subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout)
        assert [one["label"] for one in answer] == [label for label, _, _ in shown], (answer, shown)
        for one, (label, percent, width_drawn) in zip(answer, shown):
            assert abs(one["score"] - percent) < 6e-4 and abs(one["score"] - width_drawn) < 0.02, (one, label)
        unnamed = [field.get_attribute("id") for field in page.find_elements(By.CSS_SELECTOR, "input, textarea, select")
                   if not page.find_elements(By.CSS_SELECTOR, f"label[for='{field.get_attribute('id')}']")]
        assert not unnamed, f"fields without a label: {unnamed}"
        page.save_screenshot(str(picture))
        print(f"{picture}: {shown}")
    finally:
        page.quit()


def main():
    build, run = sys.argv[1:3]
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else ".")
    server = subprocess.Popen([f"{build}/trident", "serve", run, "--port", "0", "--quiet"], stdout=subprocess.PIPE,
                              text=True)
    try:
        address = re.search(r"at (http\S+);", server.stdout.readline()).group(1)
        try_page(address, folder / "page-light.png", 0, 1200, 900)
        try_page(address, folder / "page-dark.png", 1, 1200, 900)
        try_page(address, folder / "page-narrow.png", 0, 480, 1300)
    finally:
        server.terminate()
        assert server.wait() == 0, "the server did not end with 0"


main()
