//! Random templates, most of which can be expanded.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    /// A `printf` whose flags, verbs and values often do not fit one another.
    pub fn format(&mut self) -> String {
        let count = 1 + self.below(2);
        let verbs: Vec<String> = (0..count).map(|_| self.verb()).collect();
        let end = self.of(&["", "", "", ".", "%"]);
        let arguments = (count + self.below(3)).saturating_sub(self.below(2));
        let arguments: Vec<&str> = (0..arguments).map(|_| self.argument()).collect();
        format!("{{{{ printf `{}{end}` {} }}}}", verbs.join(" "), arguments.join(" "))
    }

    fn verb(&mut self) -> String {
        let flags = self.of(&["", "", "", "+", "-", "#", "0", " ", "#+", "+0", "-0", "# ", "#0", "+-# 0"]);
        let chosen = |random: &mut Self| match random.below(9) {
            0 => random.of(&["[1]", "[2]", "[3]", "[0]", "[x]", "[", "[]", "[1234567]"]),
            _ => "",
        };
        let width = self.of(&["", "", "", "", "5", "12", "1", "*", "07", "20", "99999999"]);
        let precision = self.of(&["", "", "", "", ".", ".0", ".1", ".2", ".5", ".10", ".*", ".20"]);
        let verb = self.of(&[
            "v", "d", "f", "g", "G", "e", "E", "x", "X", "q", "s", "T", "t", "b", "o", "O", "c", "U", "w",
            "F", "y", "!", "ä",
        ]);
        let (first, second, third) = (chosen(self), chosen(self), chosen(self));
        match self.below(3) {
            0 => format!("%{flags}{first}{width}{precision}{second}{verb}"),
            1 => format!("%{flags}{width}.{second}{third}{verb}"),
            _ => format!("%{flags}{width}{precision}{verb}"),
        }
    }

    fn argument(&mut self) -> &'static str {
        const ALL: [&str; 43] = [
            "0.0",
            "1.5",
            "-1.5",
            "1e6",
            "1e21",
            "123456789.0",
            "0.1",
            "1e-5",
            "3.0",
            "100000.0",
            "2.5",
            "255.9",
            "1e300",
            "5e-324",
            "12345.678",
            "-0.0",
            "$value",
            "0",
            "1",
            "-1",
            "7",
            "255",
            "-255",
            "65",
            "228",
            "9731",
            "8232",
            "700",
            "-42",
            "12",
            "2",
            "\"\"",
            "\"a\"",
            "\"ab c\"",
            "\"ä€\"",
            "\"x\\ty\"",
            "\"`q`\"",
            "\"\\n\"",
            "\"😀\"",
            "true",
            "$labels",
            "(args 1 `a` 2.5)",
            "$labels.job",
        ];
        ALL[self.below(ALL.len() as u64) as usize]
    }

    pub fn template(&mut self) -> String {
        let count = 1 + self.below(3);
        let mut text = String::new();
        for _ in 0..count {
            text += &self.node(2);
        }
        // Now and then something is broken.
        if self.below(12) == 0 {
            let at = self.below(text.len() as u64) as usize;
            let at = text.floor_char_boundary(at);
            match self.below(2) {
                0 => text.truncate(at),
                _ => text.insert_str(
                    at,
                    self.of(&["}}", "{{", "|", "(", ")", "$", ".", " ", "-", "\"", ":=", ","]),
                ),
            }
        }
        text
    }

    fn node(&mut self, depth: u64) -> String {
        let (open, close) = (self.of(&["{{", "{{ ", "{{- ", "{{"]), self.of(&["}}", " }}", " -}}", "}}"]));
        let inner = |random: &mut Self| {
            if depth == 0 { random.of(&["x", " y ", "\n"]).to_owned() } else { random.node(depth - 1) }
        };
        match self.below(9) {
            0 => self.of(&["text ", " ä\n", "a{b}c", "  "]).to_owned(),
            1 => format!(
                "{open}if {}{close}{}{open}else{close}{}{{{{end}}}}",
                self.value(),
                inner(self),
                inner(self)
            ),
            2 => format!(
                "{open}with {}{close}{}{{{{end}}}}",
                self.value(),
                self.of(&["{{.}}", "[{{ . }}]", "{{ $labels.job }}"])
            ),
            3 => format!(
                "{open}range query {}{close}{}{{{{else}}}}none{{{{end}}}}",
                self.of(&["`one`", "\"three\"", "`none`", "`bad`"]),
                self.of(&[
                    "{{.Labels.a}}={{.Value}};",
                    "{{ . | value | humanize }}{{break}}",
                    "{{if eq .Labels.a `x`}}{{continue}}{{end}}{{label \"b\" .}}",
                    "{{.Value | printf `%5.1f`}}"
                ])
            ),
            4 => format!(
                "{open}range $k, $v := {}{close}{{{{$k}}}}:{{{{$v}}}} {{{{end}}}}",
                self.of(&["$labels", "$externalLabels", "args 1 `a`", "query `three` | first"])
            ),
            5 => format!("{{{{$x := {}}}}}{open}$x{close}{}", self.value(), inner(self)),
            _ => format!("{open}{}{close}", self.value()),
        }
    }

    fn value(&mut self) -> String {
        match self.below(10) {
            0..=2 => format!(
                "{} | {}",
                self.number(),
                self.of(&[
                    "humanize",
                    "humanize1024",
                    "humanizeDuration",
                    "humanizePercentage",
                    "humanizeTimestamp",
                    "printf `%.2f`",
                    "printf `%v|%g`",
                    "print",
                    "toTime",
                    "html",
                    "toDuration"
                ])
            ),
            3..=4 => format!(
                "{} {}",
                self.of(&[
                    "toUpper",
                    "toLower",
                    "title",
                    "stripPort",
                    "stripDomain",
                    "len",
                    "html",
                    "js",
                    "urlquery",
                    "graphLink",
                    "safeHtml",
                    "print",
                    "printf `%q`",
                    "printf `%10s|`",
                    "not"
                ]),
                self.text()
            ),
            5 => format!(
                "{} {} {}",
                self.of(&["eq", "ne", "lt", "le", "gt", "ge"]),
                self.number(),
                self.number()
            ),
            6 => format!(
                "{} {} {}",
                self.of(&["eq", "ne", "lt", "and", "or", "print", "println", "match"]),
                self.text(),
                self.text()
            ),
            7 => format!(
                "printf `{}` {} {}",
                self.of(&["%v %v", "%s-%d", "%5v|%-5v|", "%x %q", "%08.3f %t", "%d", "%+v %U", "%e %G"]),
                self.number(),
                self.text()
            ),
            8 => self.text(),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> String {
        let numbers = [
            "$value",
            ".Value",
            "1",
            "0",
            "-3",
            "2.5",
            "1e3",
            "0x10",
            "(query `one` | first | value)",
            "1.0",
            "1234567",
            "(len $labels)",
            "now",
            "0.00001",
        ];
        self.of(&numbers).to_owned()
    }

    fn text(&mut self) -> String {
        let texts = [
            "$labels.instance",
            ".Labels.job",
            "$labels.none",
            "`raw <x>`",
            "\"it's \\\"q\\\"\"",
            "$externalLabels.zone",
            "$externalURL",
            "(index $labels `device`)",
            "\"ä ö\"",
            "\"\"",
            "(print 1 2)",
            "(label `a` (query `one` | first))",
            "`12.5`",
            "`[::1]:80`",
            "`1.2.3.4:5`",
            "$value",
        ];
        self.of(&texts).to_owned()
    }
}
