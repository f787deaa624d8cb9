#!/usr/bin/env python3
"""The pages of `trident report` and `trident watch`, opened in Chromium: make test-pages.

    tests/cli/pages.py BUILD [--pictures FOLDER]

Makes runs of its own (one of four ranks, one killed, with hostile texts), opens their pages in both colour schemes and
expects: no error in the console, nothing asked for but data.json, the points of metrics.jsonl in the curves, values at
the pointer, zoom and its reset, texts of a run that stay texts, readable colours, and new points in a live page while
a run goes on. Exit 77 with a reason where Chromium, its driver or selenium is missing."""
import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HOSTILE = "</script><img src=x onerror=\"window.hacked=1\"><b>x</b> {{7*7}} ' \" & \u202e"
WORDS = "good bad fine late early box lost found the a was is it and not very".split()
SCHEMES = "light", "dark"
CONTRAST = 4.5  # WCAG 2, AA, of text


def skip(why):
    print(f"test-pages: {why}")
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    skip("selenium is missing: apt-get install python3-selenium")


def make_inputs(folder, labels):
    os.makedirs(f"{folder}/model")
    with open(f"{folder}/model/vocab.txt", "w") as out:
        out.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ""]))
    os.makedirs(f"{folder}/data")
    for name, rows in ("train", 96), ("valid", 48):
        with open(f"{folder}/data/{name}.csv", "w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["text", "size", "label"])
            for i in range(rows):
                table.writerow([f"the {WORDS[i * 5 % 7]} box {WORDS[i % 9]} {HOSTILE}", i % 11, labels[i * 7 % 2]])
    encoder = dict(model_type="bert", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                   max_position_embeddings=64)
    with open(f"{folder}/config.json", "w") as out:
        json.dump(dict(label_name="label", primary_text_name="text", tab_field_list=["size"],
                       primary_tokenizer=f"{folder}/model", primary_encoder=encoder, hidden_common_dim=16,
                       fusion_hidden_dim=16, num_classes=2, max_sen_len=48, lr=1e-3, warmup_steps=2), out)


def start(build, folder, run, *options):
    return subprocess.Popen([f"{build}/trident", "train", "--config", f"{folder}/config.json", "--data-path",
                             f"{folder}/data", "--output-dir", f"{folder}/{run}", "--batch-size", "8", "--threads",
                             "1", "--quiet", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def train(build, folder, run, *options):
    process = start(build, folder, run, *options)
    words = process.communicate()[1].decode()
    assert process.returncode == 0, words


def lines_of(run):
    with open(f"{run}/metrics.jsonl") as text:
        return [json.loads(line) for line in text if line.endswith("\n")]


def losses(run):
    return [(line["step"], line["loss"]) for line in lines_of(run) if line["event"] == "train"]


class Pages:
    """A browser, and what is expected of every page."""

    def __init__(self, pictures):
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        driver = shutil.which("chromedriver")
        if not binary or not driver:
            skip("Chromium or its driver is missing: apt-get install chromium chromium-driver")
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for word in "headless=new", "no-sandbox", "disable-gpu", "window-size=1200,900", "disable-dev-shm-usage":
            options.add_argument("--" + word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=Service(driver))
        self.pictures, self.checks = pictures, 0

    def expect(self, what, truth):
        self.checks += 1
        if not truth:
            self.picture("failed")
            sys.exit(f"test-pages: FAILED: {what}")

    def js(self, code, *arguments):
        return self.browser.execute_script(code, *arguments)

    def open(self, address, scheme):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.browser.get(address)
        WebDriverWait(self.browser, 20).until(lambda b: self.js("return !!(window.trident && trident.ready)"))

    def picture(self, name):
        height = self.js("return Math.min(document.documentElement.scrollHeight, 12000)")
        self.browser.set_window_size(1200, max(900, height + 150))
        self.browser.save_screenshot(f"{self.pictures}/{name}.png")
        self.browser.set_window_size(1200, 900)

    def quiet(self, what, allowed=()):
        """No message in the console; nothing asked for but the page and `allowed`."""
        messages = [entry for entry in self.browser.get_log("browser") if entry["level"] != "DEBUG"]
        self.expect(f"{what}: the console says {messages}", not messages)
        asked = set()
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"])
        foreign = [url for url in asked if not url.startswith(("data:", "about:", "chrome:", "file:")) and
                   not re.sub(r"[?#].*", "", url).endswith(tuple(allowed))]
        self.expect(f"{what}: asks for {foreign}", not foreign)

    def contrast(self, what):
        """Of all visible texts against the colours behind them."""
        poor = self.js(CONTRAST_CODE, CONTRAST)
        self.expect(f"{what}: hard to read: {poor[:5]}", not poor)

    def chart(self, key):
        return self.js("return Object.values(trident.charts)"
                       ".filter(c => c.series.length && c.id.includes(arguments[0]))"
                       ".map(c => ({id: c.id, title: c.title, x: c.xLabel, y: c.yLabel, series: c.series.map(s => "
                       "({name: s.name, x: Array.from(s.x), y: Array.from(s.y)}))}))[0]", key)

    def svg(self, chart):
        return self.js("return trident.charts[arguments[0]].figure.querySelector('svg.plot')", chart["id"])

    def points(self, what, run, series):
        wanted = dict(losses(run))
        got = dict(zip(series["x"], series["y"]))
        self.expect(f"{what}: {len(got)} points for {len(wanted)} steps",  # a long curve is thinned
                    len(got) == len(wanted) or len(wanted) > len(got) >= 900)
        self.expect(f"{what}: the points of metrics.jsonl",
                    all(abs(y - wanted[x]) <= 1e-5 * abs(y) for x, y in got.items()))

    def hover(self, what, chart):
        canvas = self.svg(chart)
        self.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
        ActionChains(self.browser).move_to_element(canvas).perform()
        tip = self.browser.find_element(By.ID, "tip")
        text = WebDriverWait(self.browser, 5).until(lambda b: tip.is_displayed() and tip.text)
        self.expect(f"{what}: a step at the pointer: {text!r}", re.match(r"step \d", text))
        step = int(re.search(r"\d[\d,]*", text).group().replace(",", ""))
        values = dict(zip(chart["series"][0]["x"], chart["series"][0]["y"]))
        self.expect(f"{what}: {text!r} names a step of the curve", step in values)
        shown = [float(word.replace(",", "")) for word in re.findall(r"\d[\d,]*\.\d+", text)]
        self.expect(f"{what}: {text!r} has the loss {values[step]}",
                    any(abs(value - values[step]) <= 1e-3 * abs(values[step]) for value in shown))

    def zoom(self, what, chart):
        view = lambda: self.js("return trident.charts[arguments[0]].view", chart["id"])
        before, canvas = view(), self.svg(chart)
        ActionChains(self.browser).move_to_element(canvas).click_and_hold().move_by_offset(150, 0).release().perform()
        near = view()
        self.expect(f"{what}: dragging zooms: {before} -> {near}", near[1] - near[0] < 0.7 * (before[1] - before[0]))
        reset = self.js("return trident.charts[arguments[0]].figure.querySelector('button.reset')", chart["id"])
        self.expect(f"{what}: the reset can be pressed", reset.is_enabled())
        reset.click()
        self.expect(f"{what}: reset shows all again", view() == before)


# Colours as sRGB with alpha, put over each other from the root down; texts of the page and of its pictures.
CONTRAST_CODE = r"""
const parse = text => { const m = text.match(/[\d.]+/g); if (!m) return null;
  const v = m.map(Number), most = text.startsWith('color(srgb') ? 255 : 1;
  return [v[0] * most, v[1] * most, v[2] * most, v[3] ?? 1];
    };
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const light = c => { const f = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
const dark = matchMedia('(prefers-color-scheme: dark)').matches;
function behind(node) {
  const stack = [];
  for (let n = node; n && n.nodeType === 1; n = n.parentElement)
    stack.unshift(parse(getComputedStyle(n).backgroundColor) || [0, 0, 0, 0]);
  return stack.reduce((below, top) => over(top, below), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
}
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
  if (!words || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION'].includes(node.tagName)) continue;
  const style = getComputedStyle(node), box = node.getBoundingClientRect();
  if (!box.width || !box.height || style.visibility !== 'visible' || Number(style.opacity) < 0.05 ||
      node.closest('[hidden]') || node.closest(':disabled') || node.classList.contains('skip')) continue;
  const inside = node.namespaceURI.endsWith('svg');
  let back = behind(inside ? node.closest('svg').parentElement : node);
  if (inside) for (const shape of node.closest('svg').querySelectorAll('rect')) {  /* boxes that the text stands on */
    const at = shape.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const fill = parse(getComputedStyle(shape).fill);
    if (fill && x >= at.left && x <= at.right && y >= at.top && y <= at.bottom &&
        shape.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING) {
      fill[3] *= Number(getComputedStyle(shape).opacity) * Number(getComputedStyle(shape).fillOpacity);
      back = over(fill, back);
    }
  }
  const front = over(parse(inside ? style.fill : style.color), back), a = light(front), b = light(back);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < arguments[0])
    poor.push(`${words.slice(0, 40)}: ${ratio.toFixed(2)} (${node.tagName} ${node.getAttribute('class') || ''})`);
}
return poor;
"""


def check_report(pages, build, folder):
    for name, run in ("ranks", "ranks"), ("killed", "killed"):
        path = f"{folder}/{name}.html"
        subprocess.run([f"{build}/trident", "report", f"{folder}/{run}", "-o", path, "--quiet"], check=True)
        pages.expect(f"{name}: the page is below 1 MB", os.path.getsize(path) < 1 << 20)
        for scheme in SCHEMES:
            what = f"report of {name}, {scheme}"
            pages.open(f"file://{path}", scheme)
            chart = pages.chart("loss")
            pages.expect(f"{what}: a chart of the loss with both axes named", chart and chart["x"] and chart["y"])
            pages.points(what, f"{folder}/{run}", chart["series"][0])
            pages.hover(what, chart)
            pages.zoom(what, chart)
            pages.expect(f"{what}: texts stay texts", not pages.js("return window.hacked"))
            pages.expect(f"{what}: no element came from a text",
                         not pages.js("return document.querySelectorAll('img').length"))
            pages.contrast(what)
            pages.quiet(what)
            pages.picture(f"report-{name}-{scheme}")
    verdict = pages.js("return document.getElementById('verdict').textContent")
    pages.expect(f"a killed run is called so: {verdict}",
                 re.search(r"killed|stopped at step", verdict))


def check_several(pages, build, folder):
    path = f"{folder}/several.html"
    subprocess.run([f"{build}/trident", "report", f"{folder}/ranks", f"{folder}/killed", "-o", path, "--quiet"],
                   check=True)
    for scheme in SCHEMES:
        what = f"two runs, {scheme}"
        pages.open(f"file://{path}", scheme)
        chart = pages.chart("loss")
        curves = [series for series in chart["series"] if "validation" not in series["name"]]
        pages.expect(f"{what}: two curves", [series["name"] for series in curves] == ["ranks", "killed"])
        pages.points(what, f"{folder}/ranks", curves[0])
        pages.points(what, f"{folder}/killed", curves[1])
        text = pages.js("return document.body.innerText")
        pages.expect(f"{what}: their differences in settings are named", "max_steps" in text or "epochs" in text)
        pages.contrast(what)
        pages.quiet(what)
        pages.picture(f"several-{scheme}")


def check_live(pages, build, folder):
    """Opened before the run; it waits, then gains points while the run goes on, and stays after it."""
    watch = subprocess.Popen([f"{build}/trident", "watch", f"{folder}/live", "--port", "0"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    run = None
    try:
        address = re.search(r"http://\S+", watch.stdout.readline()).group()
        pages.browser.get(address)
        pages.expect("the page waits for a run", "Waiting for a run" in pages.js("return document.body.innerText"))
        run = start(build, folder, "live", "--epochs", "100000", "--max-steps", "200000", "--save-every", "0")
        WebDriverWait(pages.browser, 30).until(lambda b: pages.js("return !!(window.trident && trident.ready)"))
        count = lambda: pages.js("return ((trident.data.runs[0].curves || {}).loss || {of: 0}).of")
        WebDriverWait(pages.browser, 20).until(lambda b: count() > 0)
        first = count()
        pages.expect("it runs", pages.js("return trident.data.runs[0].state") == "running")
        WebDriverWait(pages.browser, 20).until(lambda b: count() > first)
        second = count()
        WebDriverWait(pages.browser, 20).until(lambda b: count() > second)
        chart = pages.chart("loss")
        pages.expect("the chart has points of now", max(chart["series"][0]["x"]) > first)
        pages.hover("live", pages.chart("loss"))
        run.send_signal(signal.SIGKILL)
        run.wait()
        WebDriverWait(pages.browser, 20).until(lambda b: pages.js("return trident.data.runs[0].state") != "running")
        time.sleep(4)  # the watch goes on; the curve stays
        chart = pages.chart("loss")
        wanted = dict(losses(f"{folder}/live"))
        pages.expect("points of the live page are those of metrics.jsonl",
                     all(abs(wanted[x] - y) <= 1e-5 * abs(y) for x, y in zip(chart["series"][0]["x"],
                                                                           chart["series"][0]["y"])))
        pages.contrast("live")
        pages.picture("live-killed")
        pages.quiet("live", allowed=(address, "/data.json"))
    finally:
        if run and run.poll() is None:
            run.kill()
        watch.send_signal(signal.SIGINT)
        pages.expect("watch ends with 0", watch.wait(timeout=10) == 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--pictures", help="folder for pictures of the pages; default: BUILD/pages")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    pictures = os.path.abspath(options.pictures or f"{build}/pages")
    os.makedirs(pictures, exist_ok=True)
    pages = Pages(pictures)
    try:
        with tempfile.TemporaryDirectory() as folder:
            make_inputs(folder, ["fine", HOSTILE])
            train(build, folder, "ranks", "--nproc-per-node", "4", "--pp-size", "2", "--num-microbatches", "4",
                  "--epochs", "8", "--max-steps", "40")
            killed = start(build, folder, "killed", "--epochs", "1000", "--max-steps", "100000", "--save-steps", "50")
            while not os.path.exists(f"{folder}/killed/metrics.jsonl") or len(losses(f"{folder}/killed")) < 60:
                time.sleep(0.05)
            killed.kill()
            killed.wait()
            check_report(pages, build, folder)
            check_several(pages, build, folder)
            check_live(pages, build, folder)
    finally:
        pages.browser.quit()
    print(f"test-pages: {pages.checks} checks, all as expected; pictures in {pictures}")


main()
