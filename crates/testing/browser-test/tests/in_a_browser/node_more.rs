//! What the page of a node has beyond its first picture: more panels of devices, and the table of who uses the node, now and at a time.

use std::process::{Command, Stdio};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::server::Server;
use khz_browser_test::target_dir;

#[test]
fn disks_show_how_busy_and_how_slow_they_are_and_the_cpus_have_a_scale() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(4));
        let browser = Browser::start().await;
        for (width, height) in [(1280, 3_000), (320, 6_000)] {
            browser.look(width, height, Theme::Light).await;
            let page = Page::open(&browser, &format!("{}#node=node2&rate=10&window=1min", door.url())).await;
            for title in ["nvme0n1: busy", "nvme0n1: time of a request"] {
                let last = format!("khz.panels.find(p => p.title === '{title}')?.last.some(Number.isFinite)");
                page.wait(&format!("{title} has values"), &last).await;
            }
            // They have the past of the other panels, too: more than the stream has brought.
            let drawn = "[...document.querySelectorAll('.panel')].find(p => p.getAttribute('aria-label') === 'nvme0n1: busy').querySelector('.trace')";
            let painted = format!(
                "(c => c.getContext('2d').getImageData(0, 0, c.width / 2, c.height).data.some(byte => byte > 0))({drawn})"
            );
            page.wait("the left half is painted", &painted).await;
            // One interface drops packets; of the others there is nothing to show.
            let errors = "khz.panels.filter(p => /errors and drops/.test(p.title)).map(p => [p.title, p.hidden]).sort().join(';')";
            let expected =
                "eth0: errors and drops,false;ib0: errors and drops,true;lo: errors and drops,true";
            page.wait("only the panel with drops is there", &format!("{errors} === '{expected}'")).await;
            assert_clean_console(&browser).await;
            page.screenshot(&target_dir().join(format!("screenshots/node-more-{width}-light.png"))).await;
        }
        browser.close().await;
    });
}

/// A program that does nothing but use a CPU, until it is dropped.
struct Burner(std::process::Child);

impl Burner {
    fn start() -> Self {
        let mut yes = Command::new("yes");
        Burner(yes.stdout(Stdio::null()).stdin(Stdio::null()).spawn().expect("yes runs"))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const COMMANDS: &str = "khz.ranks.rows.map(row => row.command ?? row.name)";

async fn choose(page: &Page<'_>, kind: &str) {
    page.eval(&format!(
        "[...document.querySelectorAll('.ranks .segments button')].find(b => b.textContent === '{kind}').click()"
    ))
    .await;
}

#[test]
fn the_table_names_who_used_the_node_now_and_at_a_time_that_is_over() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1600, Theme::Light).await;
        let burner = Burner::start();
        let page = Page::open(&browser, &format!("{}#rate=1&window=1min", server.url())).await;
        page.wait("the table is there", "document.querySelector('.ranks')").await;
        page.eval("document.querySelector('.ranks').scrollIntoView()").await;
        page.wait("the program is named", &format!("{COMMANDS}.includes('yes')")).await;
        page.wait("with its share of a CPU", "khz.ranks.rows.find(row => row.command === 'yes').cpu > 5")
            .await;
        assert_eq!(page.eval("khz.ranks.at").await, "now");
        let when = page.number("khz.time.to").await;
        // Programs, and control groups, in the same table.
        choose(&page, "Programs").await;
        page.wait(
            "programs are summed up",
            "khz.ranks.kind === 'programs' && khz.ranks.rows.some(row => row.name === 'yes')",
        )
        .await;
        page.wait("the address says so", "/top=programs.cpu/.test(location.hash)").await;
        choose(&page, "Control groups").await;
        page.wait(
            "groups are listed, or it says that there are none",
            "khz.ranks.kind === 'groups' && (khz.ranks.rows.length > 0 || document.querySelector('.ranks .note').textContent)",
        )
        .await;
        choose(&page, "Processes").await;
        // Sorted by memory, by the head of the column.
        page.eval("[...document.querySelectorAll('.ranks th button')].find(b => b.textContent === 'Memory').click()").await;
        page.wait(
            "it is sorted by memory",
            "khz.ranks.sort === 'memory' && /top=processes.memory/.test(location.hash)",
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/ranks-1280-light.png")).await;
        // The program ends; the table of then still names it.
        drop(burner);
        page.eval(
            "[...document.querySelectorAll('.ranks th button')].find(b => b.textContent === 'CPU').click()",
        )
        .await;
        page.wait("it is gone", &format!("khz.ranks.rows.length > 0 && !{COMMANDS}.includes('yes')")).await;
        let url = format!("{}#rate=1&window=1min&from={}&to={when}", server.url(), when - 5.0);
        let page = Page::open(&browser, &url).await;
        page.wait("the table is there", "document.querySelector('.ranks')").await;
        page.eval("document.querySelector('.ranks').scrollIntoView()").await;
        page.wait(
            "the program is named",
            &format!("khz.ranks?.at?.startsWith('at ') && {COMMANDS}.includes('yes')"),
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}
