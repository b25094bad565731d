//! `dependsOn`, and what expressions depend on: which object has to wait for which.

use super::Compiler;
use crate::mapping::ObjectRule;
use crate::mapping::diagnostic::Finding;
use crate::mapping::document::ObjectSpec;
use crate::mapping::expression::{Expression, References};
use crate::mapping::template::Text;
use crate::yaml::{Spanned, closest};

/// What stands before a related object in `dependsOn`.
const RELATED: &str = "related.";

impl Compiler {
    /// What is read, with what the variables among it read.
    pub(super) fn all_references(&self, direct: &References) -> References {
        let mut all = direct.clone();
        for references in direct.vars.iter().filter_map(|name| self.var_references.get(name)) {
            all.extend(references);
        }
        all
    }

    /// Fills in the dependencies of every rule, and refuses those that could never be met.
    pub(super) fn dependencies(&mut self, specs: &[Spanned<ObjectSpec>], rules: &mut [Option<ObjectRule>]) {
        let ids = self.objects.clone();
        let position = |id: &str| ids.iter().position(|known| known == id);
        for (index, spec) in specs.iter().enumerate() {
            let mut wanted = rules[index].as_ref().map(|rule| self.inferred(rule)).unwrap_or_default();
            for named in &spec.depends_on {
                self.check_dependency(spec, named, specs);
                wanted.objects.insert(named.value.clone());
            }
            let Some(rule) = &mut rules[index] else { continue };
            rule.depends_on = wanted.objects.iter().filter_map(|id| position(id)).collect();
        }
        self.check_cycles(specs, rules);
    }

    /// What the template, the name and `when` of an object read.
    fn inferred(&self, rule: &ObjectRule) -> References {
        let mut direct = rule.template.references().clone();
        rule.when.iter().map(Expression::references).for_each(|when| direct.extend(when));
        rule.name.iter().map(Text::references).for_each(|name| direct.extend(name));
        if let Some(each) = &rule.for_each {
            direct.extend(each.list.references());
            direct.extend(each.key.references());
        }
        self.all_references(&direct)
    }

    fn check_dependency(&mut self, spec: &ObjectSpec, named: &Spanned<String>, specs: &[Spanned<ObjectSpec>]) {
        let (what, name, known) = match named.strip_prefix(RELATED) {
            Some(name) => ("related object", name, &self.related),
            None => ("object", named.as_str(), &self.objects),
        };
        if !known.iter().any(|known| known == name) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let help = match closest(name, &known) {
                Some(meant) if what == "object" => format!("did you mean `{meant}`?"),
                Some(meant) => format!("did you mean `{RELATED}{meant}`?"),
                None if known.is_empty() => "it has none".to_owned(),
                None => format!("it has {}", known.join(", ")),
            };
            let finding = Finding::new("SE0310", named.span(), format!("the mapping has no {what} `{name}`"));
            return self.report(finding.help(help));
        }
        let own = specs.iter().any(|other| other.id.value == name && other.shared.is_none());
        if spec.shared.is_some() && (own || what != "object") {
            let message = format!("the shared object `{}` cannot wait for an object of one source", spec.id.value);
            let finding = Finding::new("SE0312", named.span(), message);
            self.report(
                finding.help("it stands for all sources of a namespace; it can wait for another shared object"),
            );
        }
    }

    /// Objects that wait for each other would wait for ever.
    fn check_cycles(&mut self, specs: &[Spanned<ObjectSpec>], rules: &[Option<ObjectRule>]) {
        let edges: Vec<&[usize]> =
            rules.iter().map(|rule| rule.as_ref().map_or(&[][..], |rule| &rule.depends_on)).collect();
        let mut said: Vec<usize> = Vec::new();
        for start in 0..edges.len() {
            let Some(cycle) = cycle_from(start, &edges).filter(|cycle| !cycle.iter().any(|one| said.contains(one)))
            else {
                continue;
            };
            let id = |position: &usize| format!("`{}`", specs[*position].id.value);
            let finding = match &cycle[..] {
                [only] => Finding::new("SE0311", specs[*only].id.span(), format!("{} waits for itself", id(only)))
                    .help("`objects.<id>` is what stands downstream; its own template cannot read it, `ready`, `failed` and `status` can"),
                [first, others @ ..] => {
                    let chain: Vec<_> = others.iter().chain([first]).map(id).collect();
                    Finding::new("SE0311", specs[*first].id.span(), format!("{} waits for {}", id(first), chain.join(", which waits for ")))
                        .help("none of them could be the first to be made: take one `dependsOn`, or one read of `objects.<id>`, away")
                }
                [] => continue,
            };
            said.extend(&cycle);
            self.report(finding);
        }
    }
}

/// The shortest way from a position back to itself.
fn cycle_from(start: usize, edges: &[&[usize]]) -> Option<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = vec![false; edges.len()];
    while !ways.is_empty() {
        let mut next = Vec::new();
        for way in ways {
            let last = *way.last()?;
            for to in edges[last] {
                if *to == start {
                    return Some(way);
                }
                if !std::mem::replace(&mut seen[*to], true) {
                    next.push([&way[..], &[*to]].concat());
                }
            }
        }
        ways = next;
    }
    None
}
