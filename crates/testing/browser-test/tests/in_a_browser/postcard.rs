//! What is seen, saved: pictures, drawings, tables and recordings of every view, with the address and the time inside; and the
//! page on paper.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::server::{Server, binary};
use khz_browser_test::target_dir;
use serde_json::json;

/// A folder for what the browser saves; it goes when this is dropped.
struct Saved(PathBuf);

impl Saved {
    async fn of(browser: &Browser, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-postcard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        browser
            .cdp("Browser.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": folder }))
            .await;
        Saved(folder)
    }

    /// All four files of the view, which the one key saves: their common name, and the text of the table.
    async fn all(&self, page: &Page<'_>) -> (PathBuf, String) {
        page.press("s").await;
        page.wait("the dialog is open", "document.querySelector('.save')?.open").await;
        page.press("a").await;
        let said = "document.querySelector('.save [role=status]').textContent";
        page.wait("all are saved", &format!("/^Saved /.test({said})")).await;
        let said = page.eval(said).await;
        let said = said.as_str().expect("a sentence");
        for kind in ["png", "svg", "csv", "khzt"] {
            assert!(said.contains(&format!(".{kind}")), "{kind}: {said}");
        }
        let name =
            said.split_once("Saved ").expect("a file is named").1.split_once(".png").expect("a picture").0;
        let base = self.0.join(name);
        for kind in ["png", "svg", "csv", "khzt"] {
            let file = base.with_extension_kept(kind);
            page.wait_for(&format!("{} is written", file.display()), || file.is_file()).await;
        }
        page.eval("document.querySelector('.save').close()").await;
        let table = std::fs::read_to_string(base.with_extension_kept("csv")).expect("a table");
        (base, table)
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The name of a node may have a dot.
trait WithExtension {
    fn with_extension_kept(&self, kind: &str) -> PathBuf;
}

impl WithExtension for Path {
    fn with_extension_kept(&self, kind: &str) -> PathBuf {
        PathBuf::from(format!("{}.{kind}", self.display()))
    }
}

/// Checks what is the same for all views, and keeps the pictures.
async fn assert_files(page: &Page<'_>, base: &Path, table: &str, name: &str, link: &str) {
    let read = |kind: &str| std::fs::read(base.with_extension_kept(kind)).expect("a file");
    let png = read("png");
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]);
    let svg = String::from_utf8(read("svg")).expect("text");
    let size = page
        .eval(&format!(
            "(() => {{ const d = new DOMParser().parseFromString({}, 'image/svg+xml'); \
             if (d.querySelector('parsererror')) return [d.querySelector('parsererror').textContent]; \
             const e = d.documentElement; return [Number(e.getAttribute('width')), Number(e.getAttribute('height')), d.querySelector('desc').textContent, d.querySelectorAll('script, foreignObject').length]; }})()",
            json!(svg)
        ))
        .await;
    assert_eq!(
        json!([f64::from(side(16)) / 2.0, f64::from(side(20)) / 2.0]),
        json!([size[0].as_f64(), size[1].as_f64()]),
        "{name}: twice the pixels"
    );
    assert!(size[2].as_str().is_some_and(|about| about.contains(link)), "{name}: {size}");
    assert_eq!(size[3], 0, "{name}");
    assert!(table.starts_with("# ") && table.contains(&format!("# {link}")), "{name}: {table:.600}");
    for word in ["NaN", "Infinity", "undefined", "null"] {
        assert!(!table.contains(word), "{name}: {word} in {table:.600}");
    }
    let recording = read("khzt");
    assert!(recording.starts_with(b"khzT"), "{name}");
    let export = Command::new(binary())
        .arg("export")
        .arg(base.with_extension_kept("khzt"))
        .output()
        .expect("khz runs");
    assert!(export.status.success(), "{name}: {}", String::from_utf8_lossy(&export.stderr));
    assert!(String::from_utf8_lossy(&export.stdout).lines().count() > 1, "{name}: the recording has rows");
    let inside = format!("\"link\":{}", json!(link));
    assert!(String::from_utf8_lossy(&recording).contains(&inside), "{name}: {inside}");
    for kind in ["png", "svg"] {
        let kept = target_dir().join(format!("screenshots/postcard-{name}.{kind}"));
        std::fs::create_dir_all(kept.parent().expect("a folder")).expect("a folder");
        std::fs::write(kept, read(kind)).expect("a picture is kept");
    }
}

async fn address(page: &Page<'_>) -> String {
    page.eval("location.href").await.as_str().expect("an address").to_owned()
}

/// The lines of a table without those before its header.
fn lines(table: &str) -> Vec<&str> {
    table.lines().filter(|line| !line.starts_with("# ")).collect()
}

#[test]
fn a_node_is_saved_as_it_is_seen_now_and_in_the_past() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let saved = Saved::of(&browser, "node").await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        let start = page.number("khz.newest").await;
        page.wait("the window is full", &format!("khz.newest > {start} + 12")).await;
        let (base, table) = saved.all(&page).await;
        let node = page.eval("document.querySelector('#node').textContent").await;
        let name = base.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(node.as_str().unwrap()) && name.ends_with('Z'), "{name}");
        let link = table.lines().find_map(|line| line.strip_prefix("# http")).expect("the link");
        assert!(link.contains("rate=10&window=10s&from=") && link.contains("&to="), "of this moment: {link}");
        assert_files(&page, &base, &table, "node-now", &format!("http{link}")).await;
        let rows = lines(&table);
        assert!(
            rows[0].contains("All CPUs: user [%]") && rows[0].contains("Memory: used [bytes]"),
            "{}",
            rows[0]
        );
        assert!(rows.len() > 20, "{} rows", rows.len());
        assert!(rows[1..].iter().all(|row| row.starts_with("20")), "{:?}", &rows[..2]);
        // Of a curve that has no value at a time there is an empty cell.
        assert!(rows.iter().any(|row| row.contains(",,")), "{:?}", &rows[..3]);
        // The link shows the same, and is saved as the past.
        let page = Page::open(&browser, &format!("http{link}")).await;
        page.wait("it is there", "khz.time.isPast && !khz.time.isLoading").await;
        let (base, table) = saved.all(&page).await;
        assert_files(&page, &base, &table, "node-past", &address(&page).await).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn tiles_waterfall_comparison_sums_and_queries_are_saved() {
    run(async {
        let cluster = Cluster::new(64);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), node.as_str() == "node09"));
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let door = OpenDoor::open(&cluster, any_port);
        let browser = Browser::start().await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.look(1280, 900, theme).await;
            let saved = Saved::of(&browser, theme.as_str()).await;
            for (name, hash, is_shown, header, least) in [
                (
                    "cluster",
                    "metric=load",
                    "khz.known > 60 && khz.repaints > 1",
                    "node,state,\"Load, 1 min [count]\"",
                    64,
                ),
                (
                    "waterfall",
                    "view=waterfall&measure=load&rate=1",
                    "khz.waterfall?.known > 60 && Number.isFinite(khz.cell('node20', 5).value)",
                    "time (UTC),time (s since 1970),",
                    20,
                ),
                (
                    "compare",
                    "view=compare&nodes=node[01-03]",
                    "khz.ranges?.rounds > 0",
                    "CPU busy: node01 [%]",
                    100,
                ),
                ("sums", "view=sums&measure=memory", "khz.ranges?.rounds > 0", "[bytes]", 100),
                (
                    "query",
                    "query=node_load1%7Binstance%3D~%22node0.*%22%7D&range=5m",
                    "khz.query?.state === 'shown'",
                    "node_load1{instance=",
                    100,
                ),
            ] {
                let page = Page::open_bare(&browser, &format!("{}#{hash}", door.url())).await;
                page.wait(name, is_shown).await;
                let (base, table) = saved.all(&page).await;
                assert_files(
                    &page,
                    &base,
                    &table,
                    &format!("{name}-{}", theme.as_str()),
                    &address(&page).await,
                )
                .await;
                let rows = lines(&table);
                assert!(rows[0].replace("\"\"", "\"").contains(header), "{name}: {}", rows[0]);
                assert!(rows.len() > least, "{name}: {} rows", rows.len());
                if name == "cluster" {
                    let down =
                        rows.iter().find(|row| row.starts_with("node09,")).expect("a row of each node");
                    assert_eq!(*down, "node09,down,", "what is not known is empty");
                }
            }
        }
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn what_cannot_be_saved_says_why_and_the_others_are_saved() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let saved = Saved::of(&browser, "parts").await;
        let page = Page::open_bare(&browser, &format!("{}#query=vector(1)&range=5m", server.url())).await;
        page.wait("it is answered", "khz.query?.state === 'shown'").await;
        page.eval("document.activeElement.blur()").await;
        page.press("s").await;
        page.wait("the dialog is open", "document.querySelector('.save')?.open").await;
        page.press("a").await;
        let said = "document.querySelector('.save [role=status]').textContent";
        page.wait("no row has it", &format!("/Saved .*\\.csv.*Recording: khz does not gather/.test({said})"))
            .await;
        let page = Page::open_bare(&browser, &format!("{}#alerts=", server.url())).await;
        page.wait("the view is there", "khz.alerts?.state === 'shown'").await;
        page.press("s").await;
        page.wait("only the link", "document.querySelector('.save')?.open && document.querySelector('.save [role=status]').textContent.startsWith('Of this view')").await;
        assert_eq!(page.eval("document.activeElement.textContent.startsWith('Link')").await, true);
        assert_clean_console(&browser).await;
        browser.close().await;
        drop(saved);
    });
}

#[test]
fn on_paper_the_page_is_white_without_controls_and_says_where_and_when() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        for (name, url, is_shown) in [
            (
                "node",
                format!("{}#rate=10&window=10s", server.url()),
                "khz.state === 'live' && khz.rows > 40 && khz.time",
            ),
            ("cluster", format!("{}#", door.url()), "khz.known > khz.shown / 2 && khz.repaints > 1"),
            ("sums", format!("{}#view=sums", door.url()), "khz.ranges?.rounds > 0"),
        ] {
            let page = Page::open_bare(&browser, &url).await;
            page.wait(name, is_shown).await;
            page.wait(
                "the style for paper is there",
                "document.querySelector('link[media=print]')?.sheet && document.querySelector('.print-foot')",
            )
            .await;
            page.eval(
                "(window.onPaper = [], matchMedia('print').addEventListener('change', ({ matches }) => { if (!matches) return; \
                 const seen = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.getClientRects().length > 0).length; \
                 onPaper.push(getComputedStyle(document.body).backgroundColor, seen('.controls, .top button, .overview'), document.querySelector('.print-foot').textContent, document.documentElement.dataset.theme); }), true)",
            )
            .await;
            // What is on the canvases when all is printed, before the page goes on. A plot without any number is rightly blank: of a disk
            // that nobody uses there is no time of a request.
            page.eval(
                "(addEventListener('afterprint', () => { \
                 const isUnknown = (c) => { const numbers = [...(c.closest('.panel')?.querySelectorAll('.legend b') ?? [])]; return numbers.length > 0 && numbers.every((b) => b.textContent === '–'); }; \
                 const canvases = [...document.querySelectorAll('.panel:not([hidden]) .trace, .tiles canvas')].filter((c) => c.clientWidth > 0 && !isUnknown(c)); \
                 window.onCanvases = canvases.length; window.blank = canvases.filter((c) => \
                 !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((byte) => byte > 0)).length; }, true), true)",
            )
            .await;
            let pdf = browser
                .cdp("Page.printToPDF", json!({ "printBackground": true, "preferCSSPageSize": true }))
                .await;
            let pdf = khz_browser_test::base64::decoded(pdf["data"].as_str().expect("a file in base64"));
            assert!(pdf.starts_with(b"%PDF"), "{name}");
            std::fs::write(target_dir().join(format!("screenshots/paper-{name}.pdf")), pdf)
                .expect("it is kept");
            let seen = page.eval("onPaper").await;
            assert_eq!(seen[0], "rgb(255, 255, 255)", "{name}: {seen}");
            assert_eq!(seen[1], 0, "{name}: no controls");
            let foot = seen[2].as_str().expect("a text");
            let link = address(&page).await;
            assert!(
                foot.starts_with(&format!("{link} · ")) && foot.contains(':') && foot.contains("20"),
                "{name}: {foot}"
            );
            assert_eq!(seen[3], "light", "{name}");
            page.wait("it is printed", "window.blank !== undefined").await;
            assert_ne!(page.eval("onCanvases").await, 0, "{name}: canvases with numbers");
            assert_eq!(page.eval("blank").await, 0, "{name}: canvases without anything on them");
            page.wait(
                "the screen is dark again",
                "getComputedStyle(document.body).backgroundColor === 'rgb(15, 17, 19)'",
            )
            .await;
        }
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

/// A plot that is a file: opened from the disk, without any server.
#[test]
fn a_plot_in_a_file_zooms_and_says_values_without_a_server() {
    run(async {
        let folder = std::env::temp_dir().join(format!("khz-plot-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (recording, html) = (folder.join("run.khzt"), folder.join("run.html"));
        let khz = |words: &[&str], file: &Path| {
            let done = Command::new(binary())
                .args(words)
                .arg("-o")
                .arg(file)
                .env("KHZ_RING_DIR", "none")
                .output()
                .expect("khz runs");
            assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        };
        khz(
            &["record", "load.*", "mem.free", "cpu.all.*", "--direct", "--rate", "100", "--for", "5s"],
            &recording,
        );
        let words = [
            "plot",
            recording.to_str().expect("UTF-8"),
            "-m",
            "cpu.all.user",
            "-m",
            "cpu.all.idle",
            "-m",
            "mem.free",
        ];
        khz(&words, &html);
        let browser = Browser::start().await;
        for (width, theme) in [(1280, Theme::Light), (390, Theme::Dark)] {
            browser.look(width, 900, theme).await;
            browser.client.goto("about:blank").await.expect("a blank page opens");
            browser.client.goto(&format!("file://{}", html.display())).await.expect("the file opens");
            let page = Page { browser: &browser };
            page.wait("it is drawn", "window.khzPlot?.panels.length === 2 && document.querySelector('.panel .legend b').textContent !== '–'").await;
            let span = "(khzPlot.time.shown.to - khzPlot.time.shown.from)";
            let whole = page.number(span).await;
            assert!((4.0..7.0).contains(&whole), "{whole}");
            let brightness = page
                .number("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
                .await;
            assert_eq!(brightness < 128.0, theme == Theme::Dark);
            page.picture(&format!("plot-page-{width}")).await;
            let (left, top, wide, high) = page.place(".panel .frame").await;
            let at = |share: f64| (left + share * wide, top + 0.5 * high);
            if width > 600 {
                page.drag(at(0.25), at(0.5)).await;
                page.wait("a drag zooms", &format!("Math.abs({span} - {whole} / 4) < 0.1")).await;
                page.picture("plot-page-zoomed").await;
                page.point_at(at(0.5).0, at(0.5).1).await;
                page.wait("the tip has the time", "/\\d\\d:\\d\\d:\\d\\d\\.\\d\\d\\d/.test(document.querySelector('.panel .tip').textContent)").await;
                page.press("Home").await;
                page.wait("all of it", &format!("{span} === {whole}")).await;
            }
            let fetched = page.eval("performance.getEntriesByType('resource').filter(({ name }) => !name.startsWith('data:')).map(({ name }) => name)").await;
            assert_eq!(fetched, json!([]), "nothing is fetched");
            page.assert_fits().await;
            assert_clean_console(&browser).await;
        }
        browser.close().await;
        let _ = std::fs::remove_dir_all(&folder);
    });
}
