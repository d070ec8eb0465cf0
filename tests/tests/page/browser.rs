//! Chromium, driven by WebDriver.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spag_tests::{Running, find_program};
use thirtyfour::prelude::*;
use thirtyfour::{LoggingPrefsLogLevel, TypingData, WindowHandle};
use tokio::runtime::{Builder, Runtime};

/// How long a condition may take to hold.
const PATIENCE: Duration = Duration::from_secs(300);

/// A browser with one or more tabs.
pub(crate) struct Browser {
    runtime: Runtime,
    driver: WebDriver,
    _process: Running,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(find_program(&["chromedriver"], "CHROMEDRIVER"));
        let mut process = Running::start(command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let started = "started successfully on port ";
        let line = lines.find_map(|line| line.unwrap().split_once(started).map(|(_, port)| port.to_owned())).unwrap();
        let port: u16 = line.trim_end_matches('.').parse().unwrap();
        // Its output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));

        let mut chrome = DesiredCapabilities::chrome();
        let chromium = find_program(&["chromium", "chromium-browser", "google-chrome"], "CHROMIUM");
        chrome.set_binary(chromium.to_str().unwrap()).unwrap();
        for argument in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
        ] {
            chrome.add_arg(argument).unwrap();
        }
        chrome.add_arg(&format!("--user-data-dir={}", profile.path().display())).unwrap();
        chrome.set_logging_prefs("browser", LoggingPrefsLogLevel::All).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let driver = runtime.block_on(WebDriver::new(format!("http://127.0.0.1:{port}"), chrome)).unwrap();
        Self { runtime, driver, _process: process, _profile: profile }
    }

    fn run<T>(&self, work: impl Future<Output = WebDriverResult<T>>) -> T {
        self.runtime.block_on(work).unwrap()
    }

    /// Opens an address.
    pub(crate) fn open(&self, url: &str) {
        self.run(self.driver.goto(url));
    }

    /// The value of a JavaScript expression.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.run(async { Ok(self.driver.execute(format!("return ({expression});"), vec![]).await?.json().clone()) })
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(&format!("Boolean({expression})")) != json!(true) {
            let page = self.eval("document.body.innerText");
            assert!(Instant::now() < deadline, "{expression} does not hold:\n{}", page.as_str().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a text is on the page.
    pub(crate) fn wait_text(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    fn find(&self, css: &str) -> WebElement {
        self.wait(&format!("document.querySelector({})", json!(css)));
        self.run(self.driver.find(By::Css(css)))
    }

    /// Clicks the first element of a selector.
    pub(crate) fn click(&self, css: &str) {
        let element = self.find(css);
        self.run(element.scroll_into_view());
        self.run(element.click());
    }

    /// Clicks the button or link with a text.
    pub(crate) fn press(&self, text: &str) {
        self.mark(text);
        self.click("[data-pressed]");
        self.eval("document.querySelector('[data-pressed]')?.removeAttribute('data-pressed')");
    }

    /// As [`Browser::press`], wherever a text that grows moves the button: the driver waits for an element to stand still.
    pub(crate) fn press_moving(&self, text: &str) {
        self.mark(text);
        self.eval("(document.querySelector('[data-pressed]').click(), 1)");
        self.eval("document.querySelector('[data-pressed]')?.removeAttribute('data-pressed')");
    }

    /// Marks the button or link with a text.
    fn mark(&self, text: &str) {
        let same =
            format!("[...document.querySelectorAll('button, a')].find((one) => one.textContent === {})", json!(text));
        self.wait(&same);
        self.eval(&format!("{same}.setAttribute('data-pressed', '')"));
    }

    /// Types into an element.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let element = self.find(css);
        self.run(element.send_keys(text));
    }

    /// Types into the element that has the focus.
    pub(crate) fn keys(&self, keys: impl Into<TypingData>) {
        let element = self.run(self.driver.active_element());
        self.run(element.send_keys(keys));
    }

    /// Chooses an option of a list by its value.
    pub(crate) fn choose(&self, name: &str, value: &str) {
        self.find(&format!("select[name={name}]"));
        self.click(&format!("select[name={name}] option[value='{value}']"));
    }

    /// Waits until one may speak, and says something.
    pub(crate) fn say(&self, text: &str) {
        self.wait("document.querySelector('#say:not([readonly])')");
        self.type_into("#say", text);
        self.keys(Key::Enter);
    }

    /// The text of the first element of a selector.
    pub(crate) fn text(&self, css: &str) -> String {
        self.find(css);
        self.eval(&format!("document.querySelector({}).textContent", json!(css))).as_str().unwrap().to_owned()
    }

    /// The texts of all elements of a selector.
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        let texts = self.eval(&format!("[...document.querySelectorAll({})].map((one) => one.textContent)", json!(css)));
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// Sets the size of the page and its colours.
    pub(crate) fn look(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.run(self.driver.cdp().send_raw("Emulation.setDeviceMetricsOverride", size));
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.run(self.driver.cdp().send_raw("Emulation.setEmulatedMedia", features));
    }

    /// Whether nothing on the page is wider than it.
    pub(crate) fn assert_fits(&self, what: &str) {
        let widths = self.eval("[document.scrollingElement.scrollWidth, document.scrollingElement.clientWidth]");
        assert!(widths[0].as_f64() <= widths[1].as_f64(), "{what} scrolls sideways: {widths}");
    }

    /// The tab that is driven now.
    pub(crate) fn tab(&self) -> WindowHandle {
        self.run(self.driver.window())
    }

    /// Opens a tab and drives it.
    pub(crate) fn new_tab(&self) -> WindowHandle {
        let tab = self.run(self.driver.new_tab());
        self.switch(&tab);
        tab
    }

    /// Drives another tab.
    pub(crate) fn switch(&self, tab: &WindowHandle) {
        self.run(self.driver.switch_to_window(tab.clone()));
    }

    /// Loads the page again.
    pub(crate) fn refresh(&self) {
        self.run(self.driver.refresh());
    }

    /// A picture of the page in the folder that SPAG_SHOTS names, for people to look at.
    pub(crate) fn shoot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("SPAG_SHOTS") {
            let path = std::path::Path::new(&folder).join(format!("{name}.png"));
            self.run(self.driver.screenshot(&path));
        }
    }

    /// Ends the test: all that was loaded is of this origin, and the console has no errors but those that contain one of
    /// `expected`.
    pub(crate) fn end(self, expected: &[&str]) {
        let shown = self.eval("document.body.innerText");
        let nothing = ["[object ", "undefined", "NaN"].map(|text| shown.as_str().unwrap().contains(text));
        assert_eq!(nothing, [false; 3], "a value that is no text is shown: {shown}");
        let elsewhere = self.eval(
            "performance.getEntriesByType('resource').map((one) => one.name).filter((name) => \
             !name.startsWith(location.origin + '/') && !name.startsWith('blob:'))",
        );
        assert_eq!(elsewhere, json!([]));
        let log = self.run(self.driver.browser_log());
        let errors = log.into_iter().filter(|entry| entry.level == "SEVERE" || entry.level == "WARNING");
        let errors: Vec<String> = errors.map(|entry| entry.message).collect();
        let unexpected: Vec<_> =
            errors.iter().filter(|error| !expected.iter().any(|one| error.contains(one))).collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Also after a failure: Chromium does not end with its driver.
        let _ = self.runtime.block_on(self.driver.clone().quit());
    }
}
