//! The page's arithmetic in a real browser: gaps, rates, shares, buckets, numbers.

use khz_browser_test::browser::Browser;
use khz_browser_test::page::Page;
use khz_browser_test::server::Server;
use serde_json::{Value, json};

/// Helpers of the expressions below: a table of counters or gauges, and the content of a track's finest ring.
const HELPERS: &str = "
    const [{Table}, feeds, {Track, Points, WINDOWS, bucketAt}, units] = await Promise.all(
        ['table', 'feeds', 'track', 'units'].map((name) => import(`/${name}.js`)));
    const { Line } = await import('/stream.js');
    const { element } = await import('/panel.js');
    const column = (name, instance) => ({ name, instance, kind: 'counter', unit: 'count', places: 0 });
    const held = (track) => {
        const p = new Points().collect(track, 0, 0, Infinity);
        return Array.from({ length: p.length }, (_, i) => [Number(p.mean[i].toFixed(6)), p.broken[i]]);
    };
    const fed = (feed, columns, rows, holes = []) => {
        const table = new Table(columns);
        feed.bind(table);
        rows.forEach((row, i) => { table.apply(row); feed.take(table, holes.includes(i)); });
        return feed.tracks.map(held);
    };
";

/// Name, expression and expected result. A value is followed by 1 if a gap precedes it, else by 0.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "a_counter_becomes_a_rate_and_going_backwards_is_a_gap",
            "fed(new feeds.Rate('c'), [column('c')], [
                {t: '100.00', v: ['10']}, {t: '100.10', c: [0, '20']}, {t: '100.20', c: []},
                {t: '100.30', c: [0, '5']}, {t: '100.40', c: [0, '6']}])",
            json!([[[100.0, 1], [0.0, 0], [10.0, 1]]]),
        ),
        (
            "an_unknown_value_is_a_gap_and_never_zero",
            "fed(new feeds.Gauge('g'), [column('g')], [
                {t: '100.00', v: ['1']}, {t: '100.10', c: [0, {absent: 'gone'}]}, {t: '100.20', c: []},
                {t: '100.30', c: [0, {failed: 'torn'}]}, {t: '100.40', c: [0, '2']}])",
            json!([[[1.0, 1], [2.0, 1]]]),
        ),
        (
            "a_value_that_was_not_sampled_is_no_gap",
            "fed(new feeds.Gauge('g'), [column('g')], [
                {t: '100.00', v: ['1']}, {t: '100.10', v: [null]}, {t: '100.20', v: ['3']}])",
            json!([[[1.0, 1], [3.0, 0]]]),
        ),
        (
            "while_a_gauge_is_below_zero_its_plot_has_zero_in_the_middle",
            "(async () => {
                const { Plot } = await import('/plot.js');
                const frame = document.createElement('div');
                for (const name of ['axes', 'trace']) {
                    const canvas = element('canvas');
                    canvas.className = name;
                    Object.assign(canvas.style, { display: 'block', width: '200px', height: '100px' });
                    frame.append(canvas);
                }
                document.body.append(frame);
                const track = new Track(), labels = [];
                const format = (value) => (labels.push(value), `${value}`);
                const scale = { least: 1, signed: true };
                const plot = new Plot(frame, { style: 'lines', series: [{ track, colour: 0 }], scale, format });
                const drawn = (time, value, now) => {
                    track.push(time, value);
                    labels.length = 0;
                    plot.draw(time, 0, now);
                    return [plot.y(0) / plot.canvas.height, ...labels];
                };
                const found = [drawn(100, 3, 0), drawn(101, -7, 10_000), drawn(200, 3, 20_000), drawn(201, 3, 30_000)];
                frame.remove();
                return found;
            })()",
            json!([[1.0, 5.0], [0.5, 10.0, -10.0], [1.0, 10.0], [1.0, 5.0]]),
        ),
        (
            "a_hole_in_time_breaks_the_line_and_makes_no_rate",
            "fed(new feeds.Rate('c'), [column('c')], [
                {t: '100.0', v: ['0']}, {t: '100.1', v: ['1']}, {t: '105.1', v: ['2']}, {t: '105.2', v: ['4']}], [2])",
            json!([[[10.0, 1], [20.0, 1]]]),
        ),
        (
            "a_name_neither_hides_anything_nor_turns_the_direction_of_writing",
            "(() => { const e = element('b', { text: 'eth\\u202e0\\u2066\\u200b', title: 'a\\u061cb' }); return [e.textContent, e.title]; })()",
            json!(["eth\\u{202e}0\\u{2066}\\u{200b}", "a\\u{61c}b"]),
        ),
        (
            "a_row_may_be_shorter_than_its_columns",
            "fed(new feeds.Gauge('late'), [column('early'), column('late')], [
                {t: '100.0', v: ['1']}, {t: '100.1', v: ['1', '7']}])",
            json!([[[7.0, 1]]]),
        ),
        (
            "cpu_shares_are_taken_over_a_tenth_of_a_second_whatever_the_rate",
            "(() => {
                const rows = [];
                for (let ms = 0; ms <= 300; ms++) {
                    // Half of the time, in ticks of 10 ms, as the kernel counts.
                    const ticks = Math.floor(ms / 20) / 100, idle = Math.floor((ms + 10) / 20) / 100;
                    rows.push({ t: (1000 + ms / 1000).toFixed(3), v: [ticks.toFixed(2), idle.toFixed(2)] });
                }
                const feed = new feeds.Shares(['u', 'i'], [['u']]);
                return fed(feed, [column('u'), column('i')], rows)[0].map(([v]) => v >= 40 && v <= 60);
            })()",
            json!([true, true, true]),
        ),
        (
            "a_share_with_a_part_that_failed_is_unknown",
            "fed(new feeds.Shares(['u', 'i'], [['u']]), [column('u'), column('i')], [
                {t: '100.0', v: ['0.00', '0.00']}, {t: '100.2', v: ['0.10', {failed: 'torn'}]},
                {t: '100.4', v: ['0.20', '0.40']}])",
            json!([[[20.0, 1]]]),
        ),
        (
            "a_cpu_is_busy_when_it_neither_idles_nor_waits_and_unknown_when_its_counters_stand",
            "fed(new feeds.Shares(['user', 'idle', 'iowait'], [['user']], '3'),
                ['user', 'idle', 'iowait'].map((name) => column(name, '3')), [
                {t: '100.0', v: ['9.00', '5.00', '1.00']}, {t: '100.2', v: ['9.10', '5.05', '1.05']},
                {t: '100.4', v: ['9.30', '5.05', '1.05']}, {t: '100.6', c: []}, {t: '100.8', c: []},
                {t: '101.0', v: ['9.30', '5.00', '1.05']}, {t: '101.2', v: ['9.30', '5.20', '1.05']}])",
            json!([[[50.0, 1], [100.0, 0], [0.0, 1]]]),
        ),
        (
            "eleven_minutes_at_a_thousand_hertz_stay_in_fixed_space",
            "(() => {
                const track = new Track();
                for (let i = 0; i < 660_000; i++) track.push(1_763_690_000 + i / 1000, i % 1000 === 0 ? 5 : 1);
                return WINDOWS.map(({ tier, span }) => {
                    const edge = track.lastTime, from = bucketAt(tier, edge - span) + 1;
                    const p = new Points().collect(track, tier, from, Infinity);
                    let inside = 0, high = 0;
                    for (let i = 0; i < p.length; i++) if (p.bucket[i] >= from) inside++, high = Math.max(high, p.high[i]);
                    return [inside, high, track.rings[tier].mean.length];
                });
            })()",
            json!([[1000, 5.0, 1024], [1000, 5.0, 1024], [1000, 5.0, 1024]]),
        ),
        (
            "rows_seen_before_are_skipped_and_a_clock_set_back_starts_again",
            "(() => {
                const heard = [];
                const line = new Line([], null, { rows: (_, from) => heard.push(from), clockSetBack: () => heard.push('back') });
                line.stream = {};
                for (const times of [['100'], ['99.9', '100', '101'], ['50']]) line.deliver(times.map((t) => ({ t })), 0);
                return heard;
            })()",
            json!([0, 2, "back", 0]),
        ),
        (
            "numbers_are_written_as_people_read_them",
            "[units.bytes(0), units.bytes(1536), units.bytes(1023.9), units.bytesPerSecond(1048576), units.percent(99.97),
              units.perSecond(12345), units.plain(NaN), units.bytes(undefined), units.duration(93_784), units.duration(59.9)]",
            json!([
                "0 B",
                "1.50 KiB",
                "1.00 KiB",
                "1.00 MiB/s",
                "100 %",
                "12.3 k/s",
                "–",
                "–",
                "1 d 2 h",
                "59 s"
            ]),
        ),
        (
            "a_scale_ends_at_the_next_round_number",
            "[[0.3, false], [7, false], [101, false], [1025, true], [NaN, false]].map((a) => units.roundUp(...a))",
            json!([0.5, 10, 200, 2048, 1]),
        ),
    ]
}

#[test]
fn the_pages_arithmetic_keeps_its_promises() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, server.url()).await;
        let mut wrong = Vec::new();
        for (sentence, expression, expected) in cases() {
            let found = page.eval(&format!("(async () => {{ {HELPERS} return {expression}; }})()")).await;
            // 5 and 5.0 are the same number in JavaScript.
            if normal(&found) != normal(&expected) {
                wrong.push(format!("{sentence}\n  expected {expected}\n  found    {found}"));
            }
        }
        browser.close().await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Every number as a double.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        other => other.clone(),
    }
}
