//! The page's arithmetic in a real browser: gaps, rates, shares, buckets, numbers.

use khz_browser_test::browser::Browser;
use khz_browser_test::page::Page;
use khz_browser_test::root;
use khz_browser_test::run::run;
use khz_browser_test::server::Server;
use serde_json::{Value, json};

/// Every module finds what it imports: one that does not keeps its whole view away.
#[test]
fn every_module_of_the_page_loads() {
    run(async {
        let files = std::fs::read_dir(root().join("web")).expect("the page's files");
        let names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
        // The first one begins to show the page when it is loaded, and so is loaded already.
        // And early.js is no module.
        let modules: Vec<String> = names.filter(|name| name.ends_with(".js") && name != "early.js").collect();
        assert!(modules.len() > 30, "{modules:?}");
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, server.url()).await;
        let failed = format!(
            "(async () => (await Promise.allSettled({}.map((name) => import('/' + name))))
                .filter(({{ status }}) => status === 'rejected').map(({{ reason }}) => String(reason)))()",
            json!(modules)
        );
        assert_eq!(page.eval(&failed).await, json!([]));
        browser.close().await;
    });
}

/// Helpers of the expressions below: a table of counters or gauges, and the content of a track's finest ring.
const HELPERS: &str = "
    const [{Table}, feeds, {Track, Points, WINDOWS, bucketAt}, units] = await Promise.all(
        ['table', 'feeds', 'track', 'units'].map((name) => import(`/${name}.js`)));
    const { Line } = await import('/stream.js');
    const { element } = await import('/element.js');
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
            "a_share_is_known_up_to_a_tick_and_a_mean_of_more_shares_better",
            "(() => {
                // Two CPUs, three tenths of a second: a tick is 5 % of the time of one tenth, and 1.67 % of that of all.
                const rows = [0, 1, 2, 3].map((n) => ({ t: (1002 + n / 10).toFixed(1), v: [(n / 10).toFixed(2), (n / 10).toFixed(2)] }));
                const shares = new feeds.Shares(['u', 'i'], [['u']]), heat = new feeds.Shares(['u', 'i'], [['u']], '0');
                const rate = new feeds.Rate('cpu.all.user'), exact = new feeds.Rate('c');
                for (const feed of [shares, rate, exact]) fed(feed, [column(feed.names[0]), column('i')], rows);
                fed(heat, [column('u', '0'), column('i', '0')], rows);
                const of = ({ tracks: [track] }, tier, time) => Number(track.marginAt(tier, time).toFixed(2));
                return [of(shares, 0, 1002.3), of(shares, 2, 1002.2), of(rate, 0, 1002.3), of(exact, 0, 1002.3), of(heat, 0, 1002.3)];
            })()",
            json!([5.0, 1.67, 0.1, 0.0, 0.0]),
        ),
        (
            "the_margin_of_a_past_mean_is_that_of_all_its_time",
            "(async () => {
                const { PastTrack } = await import('/past-track.js');
                const { Samples } = await import('/samples.js');
                const samples = new Samples(), track = new PastTrack(0, 10_000);
                for (const time of [1, 2, 3, 4, 15]) samples.push(time, 99, 99, 99, 2);
                samples.fill(track);
                const points = new Points().collect(track);
                return [track.marginAt(3), track.marginAt(15), track.marginAt(9_000), points.hasMargins, points.margin[0]];
            })()",
            json!([0.5, 2.0, 0.0, true, 0.5]),
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
        (
            "of_a_past_window_each_column_keeps_lowest_and_highest_and_lines_lead_in_and_out",
            "(async () => {
                const { PastTrack } = await import('/past-track.js');
                const track = new PastTrack(1000, 2000);
                track.push(998, 1), track.push(999, 2), track.push(1000.2, 3), track.push(1000.4, 9), track.push(1000.6, 0);
                track.gap();
                track.push(1500, 5), track.push(2001, 7), track.push(2002, 8);
                const p = new Points().collect(track);
                const list = Array.from({ length: p.length }, (_, i) => [p.mean[i], p.low[i], p.high[i], p.broken[i]]);
                return [list, track.at(1000.5), track.rangeAt(1000.5), track.at(1200), track.at(1499.9), track.at(1700), track.average()];
            })()",
            json!([
                [[2, 2, 2, 0], [4, 0, 9, 0], [5, 5, 5, 1], [7, 7, 7, 0]],
                4,
                [0, 9],
                null,
                5,
                7,
                4.25
            ]),
        ),
        (
            "in_a_past_heat_strip_a_sample_speaks_of_the_time_before_it_and_a_gap_stays_clear",
            "(async () => {
                const [{ Heat }, { PastTrack }] = await Promise.all(['heat', 'past-track'].map((name) => import(`/${name}.js`)));
                const frame = document.createElement('div');
                for (const name of ['axes', 'trace']) {
                    const canvas = element('canvas');
                    canvas.className = name;
                    Object.assign(canvas.style, { display: 'block', width: '200px', height: '20px' });
                    frame.append(canvas);
                }
                document.body.append(frame);
                const tracks = [new Track(), new Track()];
                const past = new Map(tracks.map((track) => [track, new PastTrack(0, 1000)]));
                const [busy] = past.values();
                busy.push(100.5, 100), busy.push(200.5, 100), busy.gap(), busy.push(600.5, 50), busy.push(700.5, 50);
                const heat = new Heat(frame, tracks);
                const picture = { trackOf: (track) => past.get(track) };
                const drawn = [heat.drawPast(picture), heat.drawPast(picture)];
                const at = (row, column) => heat.words[row * 1024 + column] !== 0;
                frame.remove();
                return [drawn, [50, 150, 200, 300, 599, 600, 650, 800].map((column) => at(0, column)), at(1, 150)];
            })()",
            json!([[true, false], [false, true, true, false, false, true, true, false], false]),
        ),
        (
            "points_of_the_past_give_rates_and_means_and_a_missing_one_is_a_gap",
            "(async () => {
                const { PastRows, PastTable } = await import('/past-rows.js');
                const { Samples } = await import('/samples.js');
                const point = (t, count, last, last_t, lowest, highest, sum, resets = 0) =>
                    ({ t: `${t}`, count, last: `${last}`, last_t: `${last_t}`, lowest: `${lowest}`, highest: `${highest}`, sum: `${sum}`, resets });
                const part = (name, kind, points) => JSON.stringify({ node: 'n', name, instance: null, kind, unit: 'count', step: '0', points });
                const text = [
                    part('g', 'gauge', [point(0, 2, 3, 9, 1, 3, 4), point(10, 2, 3, 19, 3, 3, 6), point(40, 1, 8, 49, 8, 8, 8)]),
                    part('c', 'counter', [point(0, 2, 100, 9, 0, 100, 100), point(10, 2, 150, 19, 100, 150, 250), point(40, 1, 5, 49, 5, 5, 5, 1)]),
                    '{\"end\":{\"width\":\"10\"}}',
                ].join('\\n');
                const [gauge, rate] = [new feeds.Gauge('g', undefined, () => new Samples()), new feeds.Rate('c', undefined, 0, () => new Samples())];
                new PastTable([new PastRows(text)]).feed([gauge, rate]);
                const list = ({ track: t }) => t.time.map((time, i) => [time, t.mean[i], t.low[i], t.high[i], t.broken[i] ? 1 : 0]);
                return [list(gauge), list(rate)];
            })()",
            json!([
                [[9, 2, 1, 3, 1], [19, 3, 3, 3, 0], [49, 8, 8, 8, 1]],
                [[19, 5, 5, 5, 1]]
            ]),
        ),
        (
            "an_answer_that_broke_off_or_has_an_error_is_none",
            "(async () => {
                const { PastRows } = await import('/past-rows.js');
                const said = (text) => { try { return new PastRows(text).columns.length; } catch (error) { return error.message; } };
                return [said('{\"error\":\"the disk is gone\"}'), said(''), said('{\"end\":{\"width\":null}}')];
            })()",
            json!(["the disk is gone", "the answer broke off", 0]),
        ),
        (
            "the_past_is_fetched_two_at_a_time_given_up_when_unwanted_and_kept_within_its_limit",
            "(async () => {
                const { Past } = await import('/past.js');
                const fetchOf = window.fetch;
                let [most, now, asked] = [0, 0, 0];
                const part = { node: 'n', name: 'load.1m', instance: null, kind: 'gauge', unit: 'count', step: '0' };
                window.fetch = async (path, how) => {
                    // The page around asks, too.
                    if (!path.startsWith('khz/v1/range?match=load.1m&from=')) return fetchOf(path, how);
                    const { signal } = how;
                    asked++;
                    most = Math.max(most, ++now);
                    await new Promise((then) => setTimeout(then, 5));
                    now--;
                    if (signal.aborted) throw new DOMException('', 'AbortError');
                    const from = Number(new URLSearchParams(path.split('?')[1]).get('from'));
                    const rows = Array.from({ length: 60 }, (_, i) => [`${from + i}`, `${i}`, '1']);
                    return new Response(`${JSON.stringify({ ...part, rows })}\\n{\"end\":{\"width\":null}}\\n`);
                };
                try {
                    const past = new Past(null, () => {}, 10_000);
                    past.beginning = 0;
                    const need = { names: ['load.1m'], series: 1 };
                    const look = (from) => { past.begin(); const got = past.ask(need, from, from + 100, 1e6); past.sweep(); return got; };
                    const settled = async (from) => { while (look(from).isLoading) await new Promise((then) => setTimeout(then, 5)); };
                    await settled(6000);
                    const first = asked;
                    await settled(6000);
                    const again = asked - first;
                    look(12_000);
                    await settled(18_000);
                    const aborted = past.aborted;
                    for (let from = 30_000; from < 60_000; from += 600) await settled(from);
                    return [most, again, aborted > 0, past.bytes <= 10_000, past.bytes > 0, [...past.pieces.values()].every((p) => p.state === 'here')];
                } finally {
                    window.fetch = fetchOf;
                }
            })()",
            json!([2, 0, true, true, true, true]),
        ),
        (
            "a_window_stays_out_of_the_future_and_goes_back_step_by_step",
            "(async () => {
                const { TimeWindow } = await import('/time-window.js');
                const seen = [];
                const time = new TimeWindow(() => ({ from: 940, to: 1000 }), () => seen.push(time.past && [time.past.from, time.past.to]));
                time.show(950, 960);
                time.zoom(4, 0.5);
                time.pan(5);
                time.show(-50, -40);
                time.back();
                time.back();
                time.back();
                time.back();
                return seen;
            })()",
            json!([[950, 960], [935, 975], [960, 1000], [0, 10], [960, 1000], [935, 975], [950, 960], null]),
        ),
        (
            "a_signal_begins_and_ends_after_its_time_beyond_a_threshold_and_a_gap_is_unknown",
            "(async () => {
                const { segmentsOf, nowOf, worstOf } = await import('/signal-judge.js');
                const signal = { hold: 30, warning: { enter: 10, leave: 5 }, bad: { enter: 20, leave: 15 } };
                const values = [0, 12, 12, 3, 12, 12, 12, 12, 7, 7, 4, 4, 4, 25, 25, 25, 25];
                const samples = [...values.map((value, i) => [10 * i, value]), [200, NaN], [300, 1]];
                const segments = segmentsOf(samples, signal, 10, 400);
                const now = nowOf(segmentsOf(samples.slice(0, 17), signal, 10, 160));
                const worst = worstOf(segments, 50, 120);
                return [segments.map((s) => [s.state, s.from, s.to, s.highest, s.isFirst ? 1 : 0]), [now.state, now.since], [worst.state, worst.from], worstOf([], 0, 9).state];
            })()",
            json!([
                [
                    ["ok", 0, 40, 12, 1],
                    ["warning", 40, 100, 12, 0],
                    ["ok", 100, 130, 4, 0],
                    ["bad", 130, 160, 25, 0],
                    ["unknown", 160, 300, null, 0],
                    ["ok", 300, 300, 1, 0],
                    ["unknown", 300, 400, null, 0]
                ],
                ["bad", 130],
                ["warning", 40],
                "unknown"
            ]),
        ),
        (
            "events_that_are_too_dense_become_one_mark_with_a_count_and_the_worst_sign",
            "(async () => {
                const { eventsOf, marksOf, wordsOfMark } = await import('/event-list.js');
                const event = (kind, t, until, text) => ({ kind, t: String(t), until: until === null ? null : String(until), earlier: false, text });
                const { list } = eventsOf({ events: [
                    event('missing', -50, 20, '2 rows are missing'), event('boost', 100, 100, 'boost1: 10 Hz'), event('down', 110, 170, 'down'),
                    event('alert', 500, null, 'Full'), event('what comes later', 600, 600, ''), event('booted', 2000, 2000, 'booted'),
                ], left_out: 0, damage: [] });
                const marks = marksOf(list, 0, 1000, 1000);
                return [marks.map(({ share, kind, events }) => [Number(share.toFixed(3)), kind, events.length]), wordsOfMark(marks[1], 0).split('\\n').map((line) => line.replace(/^.*?: /, '')), wordsOfMark(marks[2], 0).endsWith('and goes on')];
            })()",
            json!([
                [[0.011, "missing", 1], [0.105, "down", 2], [0.5, "alert", 1]],
                ["boost boost1: 10 Hz", "down, for 1 min"],
                true
            ]),
        ),
        (
            "moments_are_read_and_written_so_that_they_mean_the_same_everywhere",
            "(async () => {
                const { addressText, clockText, momentOf, timeMarks } = await import('/moment.js');
                const away = new Date(2026, 10, 29, 0, 0, 0).getTime() / 1000;
                return [
                    ['1795958189.5', '2026-11-29T13:16:29.500Z', '2026-11-29T14:16:29.5+01:00', '2026-11-29T14:16:29.5 01:00', 'yesterday', '-5', '', null].map(momentOf),
                    addressText(1795958189.25), addressText(1795958189),
                    clockText(away + 3661.29, 0.1), clockText(away + 3661, 1), clockText(away + 3661, 60),
                    timeMarks(away + 0.29, away + 1.1, 5).map(({ text }) => text),
                ];
            })()",
            json!([
                [1_795_958_189.5, 1_795_958_189.5, 1_795_958_189.5, 1_795_958_189.5, null, null, null, null],
                "2026-11-29T13:16:29.250Z",
                "2026-11-29T13:16:29Z",
                "01:01:01.290",
                "01:01:01",
                "01:01",
                ["00:00:00.400", "00:00:00.600", "00:00:00.800", "00:00:01.000"]
            ]),
        ),
        (
            "clock_times_of_a_small_plot_are_whole_at_both_ends",
            "(async () => {
                const { TimeAxis, marksOf } = await import('/time-axis.js');
                const box = document.body.appendChild(element('div', { classes: 'panel' }));
                const axis = new TimeAxis();
                box.append(axis.root);
                const cut = [];
                for (const width of [90, 130, 200, 300, 420, 900]) {
                    box.style.width = `${width + 26}px`;
                    for (const span of [3, 60, 600, 3_600, 86_400 * 9]) for (let at = 0; at < 1; at += 0.04) {
                        const from = 1_795_958_189 + at * span;
                        axis.show(marksOf(from, from + span, axis.root.clientWidth));
                        const [outer, ...marks] = [axis.root, ...axis.root.children].map((e) => e.getBoundingClientRect());
                        if (marks.length === 0 || marks.some(({ left, right }) => left < outer.left - 1 || right > outer.right + 1)) cut.push([width, span, at]);
                    }
                }
                box.remove();
                return cut;
            })()",
            json!([]),
        ),
        (
            "what_a_line_has_asked_for_is_given_up_when_another_view_follows_and_an_answer_that_never_comes_has_an_end",
            "(async () => {
                const [whole, limit] = [window.fetch, AbortSignal.timeout];
                const given = [], said = [];
                window.fetch = (path, { signal }) => new Promise((then, fail) => signal.addEventListener('abort', () => (given.push(signal.reason.name), fail(signal.reason))));
                const on = { node() {}, columns() {}, rows() {}, notice() {}, state: (state, reason) => said.push([state, reason ?? '']) };
                const left = new Line(['load.*'], 'n1', on);
                left.start();
                await 0;
                left.end();
                AbortSignal.timeout = () => limit.call(AbortSignal, 20);
                const waiting = new Line(['load.*'], 'n1', on);
                await waiting.start();
                waiting.end();
                [window.fetch, AbortSignal.timeout] = [whole, limit];
                return [given, said.slice(0, 4)];
            })()",
            json!([
                ["AbortError", "TimeoutError"],
                [["connecting", ""], ["connecting", ""], ["waiting", "the server does not answer"]]
            ]),
        ),
    ]
}

#[test]
fn the_pages_arithmetic_keeps_its_promises() {
    run(async {
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
