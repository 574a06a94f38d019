// SPDX-License-Identifier: MIT OR Apache-2.0

//! Headless Chromium, over the pipe of its DevTools protocol: JSON messages in both directions,
//! each terminated by a NUL. <https://chromedevtools.github.io/devtools-protocol/>

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Maximum time for one answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    /// Messages that are not answers.
    events: Vec<Value>,
    session: Option<String>,
}

impl Browser {
    /// Starts a browser with its profile in `folder`.
    pub(crate) fn start(folder: &Path) -> Self {
        let profile = folder.join("profile");
        fs::create_dir_all(&profile).unwrap();
        // It reads from descriptor 3 and writes to 4; its other output is ignored.
        let mut child = Command::new("sh")
            .args([
                "-c",
                r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
                "chromium",
            ])
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-first-run",
            ])
            // As root it has no sandbox, which is acceptable for our own page; containers have a
            // small /dev/shm.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-extensions", "--disable-background-networking"])
            // Only files can be loaded.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (sender, from) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while pipe
                .read_until(0, &mut message)
                .is_ok_and(|length| length > 0)
            {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    return;
                };
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            last: 0,
            events: Vec::new(),
            session: None,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn receive(&mut self, waits_for: &str) -> Value {
        match self.from.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("chromium does not answer {waits_for}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!(
                "chromium ended at {waits_for} ({:?}): is it installed? apt-get install chromium",
                self.child.wait()
            ),
        }
    }

    /// The result of a command.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        // If the browser has ended, receiving reports it.
        let _ = write!(self.to, "{message}\0").and_then(|()| self.to.flush());
        loop {
            let mut answer = self.receive(method);
            if answer["id"] != self.last {
                self.events.push(answer);
                continue;
            }
            assert_eq!(answer["error"], Value::Null, "{method}");
            return answer["result"].take();
        }
    }

    /// Sets the page's width, and the colour scheme that the user's system prefers.
    pub(crate) fn look(&mut self, width: u32, dark: bool) {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }

    /// Opens a file, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        let url = format!("file://{}", file.display());
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert_eq!(opened["errorText"], Value::Null, "{url}");
        while !self
            .events
            .iter()
            .any(|it| it["method"] == "Page.loadEventFired")
        {
            let event = self.receive("Page.loadEventFired");
            self.events.push(event);
        }
    }

    /// The result of a script.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert_eq!(answer["exceptionDetails"], Value::Null);
        answer["result"]["value"].take()
    }

    /// Messages and errors on the page's console.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let methods = [
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Network.loadingFailed",
        ];
        let complaint = |it: &&Value| methods.iter().any(|method| it["method"] == *method);
        self.events.iter().filter(complaint).collect()
    }

    /// Requests of the page.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let requests = self.events.iter();
        let requests = requests.filter(|it| it["method"] == "Network.requestWillBeSent");
        requests
            .filter_map(|it| it["params"]["request"]["url"].as_str())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let close = json!({ "id": self.last + 1, "method": "Browser.close" });
        let _ = write!(self.to, "{close}\0").and_then(|()| self.to.flush());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
