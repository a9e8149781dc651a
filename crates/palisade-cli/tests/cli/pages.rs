//! Pages for a browser, as a browser shows them.

use std::path::PathBuf;

use palisade_testkit::desktop::{Browser, PageVisit, View};
use serde_json::json;

use crate::desk::Desk;

/// A name that would be a script, an image that runs one, and the end of whatever it stands in.
const EVIL: &str = "</pre></title><script>alert(1)</script><img src=x onerror=alert(2)>";

/// Everything that runs or loads.
const ACTIVE: &str = "document.querySelectorAll('script, img, iframe, object, embed, link, a, form, [onerror], [onclick], [onload]').length";

/// How far the page is wider than the window.
const OVERFLOW: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// The least contrast of a text with what is behind it, by the formula of <https://www.w3.org/TR/WCAG21/#contrast-minimum>.
const CONTRAST: &str = r"(() => {
  const parse = color => { const n = color.match(/[\d.]+/g).map(Number); return {rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1}; };
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const {rgb, alpha} = parse(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return rgb;
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const element of document.body.querySelectorAll('*')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color).rgb), light(behind(element))];
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()";

/// How dark the page is: the sum of red, green and blue behind everything.
const PAPER: &str = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)";

/// A folder whose names are hostile, and the three pages of it. Where `PALISADE_PAGES` names a folder, they are left there too.
fn write_pages(desk: &Desk) -> Vec<PathBuf> {
    let quoted = EVIL.replace('\'', "''");
    let long = "a_name_without_a_place_to_break_".repeat(5);
    desk.write(
        "evil/tests/evil.sql",
        format!(
            "CREATE TABLE \"{EVIL}\" (id INTEGER, \"{EVIL}\" TEXT, \"{long}\" TEXT);\n\
             CREATE TABLE hidden (x TEXT);\nINSERT INTO \"{EVIL}\" VALUES (1, '{quoted}', 'x');\n"
        ),
    );
    let cedar = EVIL.replace('"', "\\\"");
    desk.write(
        "evil/base.cedar",
        format!(
            "// {EVIL}\n@id(\"{cedar}\")\npermit (principal == Agent::\"{cedar}\", action in [Action::\"select\", Action::\"see\", Action::\"update\"], resource)\n\
             when {{ context.transport != \"http\" }};\n\
             @id(\"columns\")\npermit (principal, action == Action::\"read_plain\", resource == Column::\"main.\\\"{cedar}\\\".id\");\n\
             @id(\"masked\")\n@mask(\"fixed({long})\")\npermit (principal, action == Action::\"read_masked\", resource == Column::\"main.\\\"{cedar}\\\".{long}\");\n"
        ),
    );
    let case = format!(
        "as = '''Agent::\"{EVIL}\"'''\n[[case]]\nname = \"evil\"\nsql = '''SELECT id FROM \"{EVIL}\"'''\ndecision = \"allow\"\n"
    );
    desk.write("evil/tests/evil.toml", case);
    let who = format!("Agent::\"{EVIL}\"");
    let statement = format!("SELECT id AS \"{EVIL}\", \"{long}\" FROM \"{EVIL}\"");
    let ground = ["--catalog", "evil/tests/evil.sql", "--policies", "evil"];
    let commands: [&[&str]; 5] = [
        &[
            "policy",
            "test",
            "evil",
            "--coverage",
            "--html",
            "coverage.html",
        ],
        &[
            &["policy", "what", &who, "--html", "what.html"],
            &ground[..],
        ]
        .concat(),
        &[
            &["explain", "--as", &who, "--html", "explain.html"],
            &ground[..],
            &[&statement],
        ]
        .concat(),
        &[
            "policy",
            "test",
            "demo-policies",
            "--coverage",
            "--html",
            "demo-coverage.html",
        ],
        &[
            "policy",
            "what",
            "Agent::\"support-bot\"",
            "--catalog",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--html",
            "demo-what.html",
        ],
    ];
    for command in commands {
        desk.run(command).expect_exit(0);
    }
    let demo = "SELECT c.name, c.email, count(*) FROM customers c JOIN tickets t ON t.customer_id = c.id WHERE c.phone IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC";
    let explain = [
        "explain",
        "sqlite:demo.db",
        "--policies",
        "demo-policies",
        "--as",
        "Agent::\"support-bot\"",
        "--html",
        "demo-explain.html",
        demo,
    ];
    desk.run(&explain);
    let names = [
        "coverage",
        "what",
        "explain",
        "demo-coverage",
        "demo-what",
        "demo-explain",
    ];
    let pages = names.map(|name| desk.path(&format!("{name}.html")));
    if let Some(kept) = std::env::var_os("PALISADE_PAGES") {
        for page in &pages {
            std::fs::copy(page, PathBuf::from(&kept).join(page.file_name().unwrap())).unwrap();
        }
    }
    pages.to_vec()
}

#[test]
#[ignore = "needs Chromium: cargo xtask test runs it"]
fn pages_are_pleasant_and_run_nothing_in_chromium() {
    let desk = Desk::new();
    let pages = write_pages(&desk);
    let mut browser = Browser::start().unwrap();
    for page in &pages {
        for (width, is_dark) in [(400, false), (400, true), (1400, false), (1400, true)] {
            let name = format!("{} at {width}, dark: {is_dark}", page.display());
            let visit = browser.open(page, View { width, is_dark }).unwrap();
            assert_eq!(visit, PageVisit::default(), "{name}");
            assert_eq!(browser.evaluate(ACTIVE).unwrap(), json!(0), "{name}");
            assert_eq!(browser.evaluate(OVERFLOW).unwrap(), json!(0), "{name}");
            let contrast = browser.evaluate(CONTRAST).unwrap().as_f64().unwrap();
            assert!(contrast >= 4.5, "{name}: {contrast}");
            let paper = browser.evaluate(PAPER).unwrap().as_u64().unwrap();
            assert_eq!(paper < 200, is_dark, "{name}: {paper}");
        }
        // Names are there as they are written.
        if !page
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("demo-")
        {
            let shown = browser.evaluate("document.body.textContent").unwrap();
            assert!(shown.as_str().unwrap().contains(EVIL), "{}", page.display());
        }
    }
    // What is looked for would be found.
    desk.write(
        "bad.html",
        "<!doctype html><body style='width: 3000px; color: #777; background: #888'>x<img src=gone.png><script>console.log(1)</script>",
    );
    let visit = browser
        .open(
            &desk.path("bad.html"),
            View {
                width: 400,
                is_dark: true,
            },
        )
        .unwrap();
    assert!(
        !visit.problems.is_empty() && !visit.requests.is_empty(),
        "{visit:?}"
    );
    assert_ne!(browser.evaluate(ACTIVE).unwrap(), json!(0));
    assert_ne!(browser.evaluate(OVERFLOW).unwrap(), json!(0));
    assert!(browser.evaluate(CONTRAST).unwrap().as_f64().unwrap() < 4.5);
}
