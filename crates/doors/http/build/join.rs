//! Joins modules of the page into parts, each one file: over a slow line thirty small files come later than three large ones. The sources
//! stay plain modules. Each joined module is a function that is called once, so names of one cannot meet those of another.
//! It refuses every form of import and export that the page does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What is to be served: names of files, without `.js`, and their texts.
pub type Files = BTreeMap<String, String>;

/// Joins `sources` (names without `.js`) as `parts` say. Each module that is in a part has a file, too, which only takes it from there:
/// an import of a module by its own name gets the same one.
pub fn join(sources: &Files, parts: &[(&str, &[&str])]) -> Result<Files, String> {
    let page = Page::read(sources, parts)?;
    let mut files = Files::new();
    for (name, module) in &page.modules {
        let text =
            if page.home.contains_key(name.as_str()) { page.stub(name) } else { page.alone(name, module)? };
        files.insert(name.clone(), text);
    }
    for (part, members) in &page.members {
        if files.insert(file_of(part), page.part(part, members)?).is_some() {
            return Err(format!(
                "{}.js is the name of a part: call the module something else",
                file_of(part)
            ));
        }
    }
    Ok(files)
}

/// The files that an address of the module `name` stands for: its part first, then all that this needs.
pub fn files_for(sources: &Files, parts: &[(&str, &[&str])], name: &str) -> Result<Vec<String>, String> {
    let page = Page::read(sources, parts)?;
    Ok(page.files(name, &BTreeSet::new()))
}

/// A module, and all that it imports before it runs.
pub fn with_imports(sources: &Files, name: &str) -> Result<BTreeSet<String>, String> {
    let page = Page::read(sources, &[])?;
    let mut order = Vec::new();
    page.visit(name, &mut Vec::new(), &mut order)?;
    Ok(order.into_iter().collect())
}

fn file_of(part: &str) -> String {
    format!("part-{part}")
}

/// The variable that holds what a module exports.
fn variable(module: &str) -> String {
    format!("${}", module.replace('-', "_"))
}

/// One module, read line by line.
#[derive(Default)]
struct Module {
    lines: Vec<Line>,
    /// Each name, and what it is within the module.
    exports: Vec<(String, String)>,
}

enum Line {
    /// `import { a, b as c } from "./x.js";`, or the same with `export`: that gives no names to the module itself.
    Import {
        names: Vec<(String, String)>,
        from: String,
        is_export: bool,
    },
    /// The line without `export`.
    Export(String),
    Plain(String),
}

struct Page<'a> {
    modules: BTreeMap<String, Module>,
    /// The part that a module is in.
    home: BTreeMap<String, &'a str>,
    /// The modules of each part, each after those that it imports.
    members: Vec<(&'a str, Vec<String>)>,
    /// Of each part, itself and all parts that it needs.
    needs: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Page<'a> {
    fn read(sources: &Files, parts: &[(&'a str, &[&str])]) -> Result<Self, String> {
        let modules = sources.iter().map(|(name, text)| Ok((name.clone(), Module::read(name, text)?)));
        let modules = modules.collect::<Result<_, String>>()?;
        let mut page = Page { modules, home: BTreeMap::new(), members: Vec::new(), needs: BTreeMap::new() };
        for (part, roots) in parts {
            page.fill(part, roots)?;
        }
        for name in page.modules.keys() {
            page.visit(name, &mut Vec::new(), &mut Vec::new())?;
        }
        Ok(page)
    }

    /// Gives a part its modules, and notes which parts it needs.
    fn fill(&mut self, part: &'a str, roots: &[&str]) -> Result<(), String> {
        let mut order = Vec::new();
        for root in roots {
            if let Some(home) = self.home.get(*root) {
                return Err(format!("the part {part} has {root}.js, which the part {home} has already"));
            }
            self.visit(root, &mut Vec::new(), &mut order)?;
        }
        let (there, own): (Vec<_>, Vec<_>) = order.into_iter().partition(|name| self.home.contains_key(name));
        let mut needs: BTreeSet<&str> =
            there.iter().flat_map(|name| &self.needs[self.home[name]]).copied().collect();
        needs.insert(part);
        self.needs.insert(part, needs);
        self.home.extend(own.iter().map(|name| (name.clone(), part)));
        self.members.push((part, own));
        Ok(())
    }

    /// Adds a module behind all that it imports. `open` are those that wait for it.
    fn visit(&self, name: &str, open: &mut Vec<String>, order: &mut Vec<String>) -> Result<(), String> {
        if order.iter().any(|known| known == name) {
            return Ok(());
        }
        if open.iter().any(|waiting| waiting == name) {
            return Err(format!("{name}.js imports itself: {} -> {name}", open.join(" -> ")));
        }
        let Some(module) = self.modules.get(name) else {
            return Err(format!(
                "there is no {name}.js, which {} names",
                open.last().map_or("a part", |by| by)
            ));
        };
        open.push(name.to_owned());
        for from in module.imports() {
            self.visit(from, open, order)?;
        }
        open.pop();
        order.push(name.to_owned());
        Ok(())
    }

    /// All parts that have come when this module runs.
    fn there(&self, name: &str) -> BTreeSet<&'a str> {
        match self.home.get(name) {
            Some(part) => self.needs[part].clone(),
            None => self.modules[name].imports().flat_map(|from| self.there(from)).collect(),
        }
    }

    /// The file that has a module, then those of all parts that it needs and that are not there yet.
    fn files(&self, name: &str, there: &BTreeSet<&str>) -> Vec<String> {
        let home = self.home.get(name).copied();
        let first = home.map_or_else(|| name.to_owned(), file_of);
        let needed = self.there(name);
        let others = needed.iter().filter(|part| Some(**part) != home && !there.contains(*part));
        std::iter::once(first).chain(others.map(|part| file_of(part))).collect()
    }

    /// A file for each module of a part.
    fn stub(&self, name: &str) -> String {
        let (file, exports) = (file_of(self.home[name]), &self.modules[name].exports);
        if exports.is_empty() {
            return format!("import \"./{file}.js\";\n");
        }
        let names = exports.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let variable = variable(name);
        format!("import {{ {variable} }} from \"./{file}.js\";\nexport const {{ {names} }} = {variable};\n")
    }

    /// A module in no part: as it is, except that it takes what is in parts from there.
    fn alone(&self, name: &str, module: &Module) -> Result<String, String> {
        let mut text = String::new();
        for line in &module.lines {
            match line {
                Line::Import { names, from, is_export } => match self.home.get(from).filter(|_| !is_export) {
                    Some(part) => {
                        let (variable, taken) = (variable(from), written(names, ": "));
                        write!(
                            text,
                            "import {{ {variable} }} from \"./{}.js\"; const {{ {taken} }} = {variable};",
                            file_of(part)
                        )
                    }
                    None => {
                        let word = if *is_export { "export" } else { "import" };
                        write!(text, "{word} {{ {} }} from \"./{from}.js\";", written(names, " as "))
                    }
                },
                Line::Export(line) => write!(text, "export {}", self.loads(name, line)?),
                Line::Plain(line) => write!(text, "{}", self.loads(name, line)?),
            }
            .map_err(|error| error.to_string())?;
            text.push('\n');
        }
        Ok(text)
    }

    /// All modules of a part, one function each.
    fn part(&self, part: &str, members: &[String]) -> Result<String, String> {
        let mut text = String::new();
        for (other, names) in self.taken(part, members) {
            let variables = names.iter().map(|name| variable(name)).collect::<Vec<_>>().join(", ");
            text.push_str(&format!("import {{ {variables} }} from \"./{}.js\";\n", file_of(other)));
        }
        for name in members {
            let module = &self.modules[name];
            text.push_str(&format!("// {name}.js\nconst {} = (() => {{\n", variable(name)));
            for line in &module.lines {
                let line = match line {
                    Line::Import { is_export: true, .. } => continue,
                    Line::Import { names, from, .. } => {
                        format!("const {{ {} }} = {};", written(names, ": "), variable(from))
                    }
                    Line::Export(line) | Line::Plain(line) => self.loads(name, line)?,
                };
                text.push_str(&line);
                text.push('\n');
            }
            text.push_str(&format!("return {{ {} }};\n}})();\n", written(&module.exports, ": ")));
        }
        let variables = members.iter().map(|name| variable(name)).collect::<Vec<_>>().join(", ");
        text.push_str(&format!("export {{ {variables} }};\n"));
        Ok(text)
    }

    /// What the modules of a part import from other parts.
    fn taken(&self, part: &str, members: &[String]) -> BTreeMap<&'a str, BTreeSet<&str>> {
        let mut taken: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for from in members.iter().flat_map(|name| self.modules[name].imports()) {
            let home = self.home[from];
            if home != part {
                taken.entry(home).or_default().insert(from);
            }
        }
        taken
    }

    /// The line; an `import("./x.js")` in it asks at once for all files that `x` needs.
    fn loads(&self, name: &str, line: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("import(\"./") {
            let (wanted, after) =
                after.split_once(".js\")").ok_or_else(|| format!("{name}.js: unknown import: {line}"))?;
            if !self.modules.contains_key(wanted) {
                return Err(format!("{name}.js loads {wanted}.js, which does not exist"));
            }
            text.push_str(before);
            let files = self.files(wanted, &self.there(name));
            let all = files.iter().map(|file| format!("import(\"./{file}.js\")")).collect::<Vec<_>>();
            let own = if self.home.contains_key(wanted) {
                format!("part.{}", variable(wanted))
            } else {
                "part".to_owned()
            };
            match (all.as_slice(), own.as_str()) {
                ([one], "part") => text.push_str(one),
                ([one], own) => text.push_str(&format!("{one}.then((part) => {own})")),
                (all, own) => {
                    text.push_str(&format!("Promise.all([{}]).then(([part]) => {own})", all.join(", ")))
                }
            }
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }
}

impl Module {
    fn read(name: &str, text: &str) -> Result<Module, String> {
        let mut module = Module::default();
        for (number, line) in text.lines().enumerate() {
            let line = module.line(line).ok_or_else(|| {
                format!("{name}.js:{}: this form of import or export cannot be joined: {line}", number + 1)
            })?;
            module.lines.push(line);
        }
        Ok(module)
    }

    /// None if it is not understood.
    fn line(&mut self, line: &str) -> Option<Line> {
        let is_comment = line.trim_start().starts_with("//") || line.trim_start().starts_with('*');
        if !is_comment
            && (line.contains("import.meta")
                || line.matches("import(").count() != line.matches("import(\"./").count())
        {
            return None;
        }
        for (word, is_export) in [("import {", false), ("export {", true)] {
            let Some(rest) = line.strip_prefix(word) else { continue };
            let (names, rest) = rest.split_once('}')?;
            let from = rest.strip_prefix(" from \"./")?.strip_suffix(".js\";")?.to_owned();
            let names: Vec<_> =
                names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(renamed).collect();
            if is_export {
                let of = |there: &str| format!("{}.{there}", variable(&from));
                self.exports.extend(names.iter().map(|(there, here)| (here.clone(), of(there))));
            }
            return Some(Line::Import { names, from, is_export });
        }
        if line.starts_with("import") && !line.starts_with("import(") || line.starts_with("await ") {
            return None;
        }
        let Some(rest) = line.strip_prefix("export ") else { return Some(Line::Plain(line.to_owned())) };
        self.exports.extend(declared(rest)?.into_iter().map(|name| (name.clone(), name)));
        Some(Line::Export(rest.to_owned()))
    }

    fn imports(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Import { from, .. } => Some(from.as_str()),
            Line::Export(_) | Line::Plain(_) => None,
        })
    }
}

/// The names that a declaration has. None for `let` too: a function's result does not change when the variable does.
fn declared(line: &str) -> Option<Vec<String>> {
    if let Some(names) = line.strip_prefix("const [") {
        return Some(names.split_once(']')?.0.split(", ").map(str::to_owned).collect());
    }
    let words = ["const ", "class ", "async function* ", "async function ", "function* ", "function "];
    let rest = words.iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')?;
    (end > 0).then(|| vec![rest[..end].to_owned()])
}

/// The name in the other module, and the one here.
fn renamed(name: &str) -> (String, String) {
    let (there, here) = name.split_once(" as ").unwrap_or((name, name));
    (there.to_owned(), here.to_owned())
}

/// The names of a list: `between` stands between the name there and the one here, if they differ.
fn written(names: &[(String, String)], between: &str) -> String {
    let one = |(there, here): &(String, String)| {
        if there == here { here.clone() } else { format!("{there}{between}{here}") }
    };
    names.iter().map(one).collect::<Vec<_>>().join(", ")
}
