//! The modules of panels, boards, palette and tables, one by one, with data made here: what they compute, and what they refuse.

use khz_browser_test::browser::Browser;
use khz_browser_test::page::Page;
use khz_browser_test::run::run;
use khz_browser_test::server::Server;
use serde_json::{Value, json};

/// Name, expression and expected result.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "panels_are_the_same_after_an_address_has_kept_them",
            "(async () => {
                const { readPanels, spec, writePanels } = await import('/own-spec.js');
                const panels = [
                    spec({ match: 'node[1-3]:net.rx_bytes[eth0]', kind: 'stack', wide: true }),
                    spec({ query: 'rate(x{a=\"b & c\",d=~\".*\"}[1m]) # 100%', title: 'A & b = c; d' }),
                    spec({ query: '=odd', kind: 'heat' }),
                    spec({ query: 'π * {\"ü\"}', kind: 'no such kind', title: 'a*b' }),
                ];
                const again = readPanels(new URLSearchParams(writePanels(panels))).panels;
                return [JSON.stringify(again) === JSON.stringify(panels), again[3].kind, again[3].title, writePanels(panels.slice(0, 1))];
            })()",
            json!([true, "line", "ab", "p=sw**node%5B1-3%5D:net.rx_bytes%5Beth0%5D"]),
        ),
        (
            "an_address_has_room_for_so_much_and_what_is_no_panel_is_none",
            "(async () => {
                const { ADDRESS_MAX, PANELS_MAX, readPanels, spec, whyNot } = await import('/own-spec.js');
                const many = readPanels(new URLSearchParams(Array.from({ length: PANELS_MAX + 2 }, () => ['p', 'l**a.b'])));
                const wrong = readPanels(new URLSearchParams([['p', ''], ['p', 'x**a.b'], ['p', 'l*a.b'], ['p', 'l**'], ['p', `l**=${'x'.repeat(2001)}`]]));
                const one = spec({ query: 'x'.repeat(1900) });
                return [many.panels.length, many.leftOut, wrong.panels.length, whyNot([one]), /characters/.test(whyNot([one, one, one, one])), /at most/.test(whyNot(Array(25).fill(spec({ match: 'a.b' })))), ADDRESS_MAX];
            })()",
            json!([24, 2, 0, "", true, true, 6_000]),
        ),
        (
            "a_typed_text_is_a_pattern_only_if_promql_cannot_mean_it",
            "(async () => {
                const { specOf, splitPattern } = await import('/own-spec.js');
                const of = (text) => { const s = specOf(text); return s && (s.match ? `m ${s.match}` : `q ${s.query}`); };
                return [['net.rx_bytes[eth0]', 'n[1-3],login1:cpu.*', 'node_load1', 'sum(node_load1)', '= node_load1 > 2', '=net.rx', 'up == 0', 'instance:cpu:rate5m', ' ', 'cgroup.memory[slurm/job_*]'].map(of),
                    ['n[1-3],a:net.rx[eth0:1]', 'net.rx[a:b]', 'n1:load.1m'].map((text) => Object.values(splitPattern(text)))];
            })()",
            json!([
                [
                    "m net.rx_bytes[eth0]", "m n[1-3],login1:cpu.*", "q node_load1", "q sum(node_load1)",
                    "q node_load1 > 2", "q net.rx", "q up == 0", "q instance:cpu:rate5m", null,
                    "m cgroup.memory[slurm/job_*]"
                ],
                [["n[1-3],a", "net.rx[eth0:1]"], ["", "net.rx[a:b]"], ["n1", "load.1m"]]
            ]),
        ),
        (
            "what_begins_a_word_stands_before_what_is_inside_one_and_letters_may_be_left_out",
            "(async () => {
                const { Search } = await import('/palette-rank.js');
                const entry = (name, help = '') => ({ name, help, weight: 0 });
                const search = new Search([entry('disk.read_bytes'), entry('net.rx_bytes', 'bytes received'), entry('net.rx_packets'), entry('kilobytes'), entry('cpu.user', 'time of programs')], 3);
                const names = async (text) => (await search.find(text)).map(({ name }) => name);
                return [await names('bytes'), await names('nrxb'), await names('rx net'), await names('programs'), await names('zzz'), (await names('')).length, await names('received bytes')];
            })()",
            json!([
                ["net.rx_bytes", "disk.read_bytes", "kilobytes"],
                ["net.rx_bytes"],
                ["net.rx_bytes", "net.rx_packets"],
                ["cpu.user"],
                [],
                3,
                ["net.rx_bytes"]
            ]),
        ),
        (
            "a_hundred_thousand_names_are_searched_in_slices_and_a_new_search_ends_the_one_before",
            "(async () => {
                const { Search } = await import('/palette-rank.js');
                const entries = Array.from({ length: 100_000 }, (_, i) => ({ name: `node${i}.some_long_metric_name_${i % 977}`, help: 'a sentence of some words', weight: 0 }));
                const search = new Search(entries, 20);
                let beats = 0;
                const beat = () => { beats++; timer = setTimeout(beat, 0); };
                let timer = setTimeout(beat, 0);
                const first = search.find('metric xyzzy');
                const second = search.find('node99999.');
                const found = [await first, (await second).map(({ name }) => name)];
                clearTimeout(timer);
                return [found[0], found[1][0], beats > 0];
            })()",
            json!([null, "node99999.some_long_metric_name_345", true]),
        ),
        (
            "the_rows_of_several_nodes_stay_apart_and_one_broken_answer_is_none",
            "(async () => {
                const { RowsOfNodes } = await import('/own-past.js');
                const part = (node, t) => JSON.stringify({ node, name: 'load.1m', instance: null, kind: 'gauge', unit: 'count', places: 2, type: 'unsigned', step: '1', rows: [[`${t.toFixed(1)}`, '1', '1'], [`${(t + 1).toFixed(1)}`, '2', '2']] });
                const end = '{\"end\":{\"width\":null}}';
                const rows = new RowsOfNodes([part('n1', 100), part('n\\\"2', 100.5), end].join('\\n'));
                const error = (text) => { try { new RowsOfNodes(text); return ''; } catch (error) { return error.message; } };
                return [[...rows.ofNode.keys()], [...rows.ofNode.values()].map(({ time }) => [...time]), rows.bytes > 0, error(part('n1', 1)), error('{\"error\":\"no room\"}'), [...new RowsOfNodes(end).ofNode].length];
            })()",
            json!([
                ["n1", "n\"2"],
                [[100, 101], [100.5, 101.5]],
                true,
                "the answer broke off",
                "no room",
                0
            ]),
        ),
        (
            "the_time_of_an_event_is_unknown_where_nothing_happened",
            "(async () => {
                const { TimeEach } = await import('/node-more-feeds.js');
                const { Table } = await import('/table.js');
                const { Points } = await import('/track.js');
                const column = (name) => ({ name, instance: 'sda', kind: 'counter', unit: 'count' });
                const feed = new TimeEach('t', 'n', 'sda');
                const table = new Table([column('t'), column('n')]);
                feed.bind(table);
                for (const row of [{ t: '100', v: ['1', '10'] }, { t: '101', v: ['3', '14'] }, { t: '102', v: ['3', '14'] }, { t: '103', v: ['4', '15'] }, { t: '104', v: ['1', '2'] }, { t: '105', v: ['2', '4'] }]) {
                    table.apply(row);
                    feed.take(table, false);
                }
                const p = new Points().collect(feed.track, 0, 0, Infinity);
                return Array.from({ length: p.length }, (_, i) => [p.mean[i], p.broken[i]]);
            })()",
            json!([[0.5, 1], [1, 1], [0.5, 1]]),
        ),
        (
            "processes_are_joined_over_their_places_and_an_unknown_number_is_no_zero",
            "(async () => {
                const { rowsOf } = await import('/node-more-ranks.js');
                const part = (name, instance, ...rows) => JSON.stringify({ node: 'n', name, instance, rows: rows.map(([t, r]) => [String(t), '0', r]) });
                const who = (pid, command) => ({ info: { pid: String(pid), command, user: 'u' } });
                const end = '{\"end\":{\"width\":null}}';
                const text = [
                    part('process.cpu', '1', [9, '10'], [10, '50']), part('process.busiest', '1', [9, who(7, 'old')], [10, who(8, 'cc')]),
                    part('process.cpu', '2', [10, { absent: 'no process' }]), part('process.busiest', '2', [10, { absent: 'no process' }]),
                    part('process.memory', '1', [10, '4096']), part('process.largest', '1', [10, who(8, 'cc')]),
                    part('process.memory', '2', [1, '9999']), part('process.largest', '2', [1, who(3, 'gone')]),
                    end,
                ].join('\\n');
                const groups = [
                    part('cgroup.cpu_usage', 'a', [8, '1'], [10, '3']), part('cgroup.memory', 'a', [10, '5']),
                    part('cgroup.io_read', 'a', [8, '0'], [10, '20']), part('cgroup.io_written', 'a', [8, '5'], [10, '3']), end,
                ].join('\\n');
                return [rowsOf('processes', text, 10), rowsOf('processes', text, 9.5).map(({ command }) => command), rowsOf('groups', groups, 10)];
            })()",
            json!([
                [{ "pid": "8", "command": "cc", "user": "u", "cpu": 50, "memory": 4096 }],
                ["old"],
                [{ "name": "a", "count": "", "cpu": 1, "memory": 5 }]
            ]),
        ),
    ]
}

#[test]
fn the_modules_of_panels_keep_their_promises() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, server.url()).await;
        let mut wrong = Vec::new();
        for (sentence, expression, expected) in cases() {
            let found = page.eval(&format!("(async () => {{ return {expression}; }})()")).await;
            if normal(&found) != normal(&expected) {
                wrong.push(format!("{sentence}\n  expected {expected}\n  found    {found}"));
            }
        }
        browser.close().await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Every number as a double: 5 and 5.0 are the same in JavaScript.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}
