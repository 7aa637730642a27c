"""A headless Chromium, driven by chromedriver over HTTP on loopback (WebDriver, https://www.w3.org/TR/webdriver2/)."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1"]


def what_is_missing():
    """The first program that is not installed, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return program
    return None


class Browser:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="page_test.")
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        self.session = None
        for line in self.process.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.address = f"http://127.0.0.1:{found[1]}/session"
                break
        else:
            self.close()
            raise RuntimeError("chromedriver did not start")
        try:
            self.start()
        except Exception:
            self.close()
            raise

    def start(self):
        options = {"binary": shutil.which("chromium"), "args": FLAGS + [f"--user-data-dir={self.directory}"]}
        answer = self.request("POST", self.address, {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = f"{self.address}/{answer['sessionId']}"

    def close(self):
        if self.session:
            try:
                self.request("DELETE", self.session)
            except Exception:  # it is gone already
                pass
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def request(method, address, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def post(self, path, body):
        return self.request("POST", f"{self.session}/{path}", body)

    def chrome(self, command, **parameters):
        """A command of the DevTools protocol."""
        return self.post("goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, path):
        self.post("url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        return self.post("execute/sync", {"script": script, "args": list(arguments)})

    def messages(self):
        """What the page wrote to the console, errors too."""
        return [entry["message"] for entry in self.post("se/log", {"type": "browser"})]

    def find(self, selector):
        return self.post("element", {"using": "css selector", "value": selector})

    def click(self, selector):
        element = self.find(selector)[ELEMENT]
        self.post(f"element/{element}/click", {})

    def press(self, selector, keys):
        element = self.find(selector)[ELEMENT]
        self.post(f"element/{element}/value", {"text": keys})

    def drag(self, selector, down, kind="mouse"):
        """Moves an element by so many pixels, by a mouse or a finger."""
        origin = self.find(selector)
        pointer = lambda *actions: {"actions": [{"type": "pointer", "id": kind, "parameters": {"pointerType": kind},
                                                 "actions": list(actions)}]}
        move = lambda y: {"type": "pointerMove", "duration": 50, "origin": origin, "x": 0, "y": y}
        self.post("actions", pointer(move(0), {"type": "pointerDown", "button": 0},
                                     {"type": "pointerMove", "duration": 50, "origin": "pointer", "x": 0, "y": down // 2},
                                     {"type": "pointerMove", "duration": 50, "origin": "pointer", "x": 0,
                                      "y": down - down // 2},
                                     {"type": "pointerUp", "button": 0}))

    def resize(self, width, height, mobile=False):
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def set_colours(self, scheme):
        self.chrome("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path, whole=False):
        data = self.chrome("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
