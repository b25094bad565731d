//! Calls: names looked up, and each argument put into its parameter's place.

use minijinja::machinery::ast;
use serde_json::Value;

use super::parse::Compiler;
use super::pattern::Pattern;
use super::registry::Role;
use super::tree::{Call, Expr};
use crate::yaml::meant;

impl Compiler<'_> {
    pub fn filter(&mut self, node: &ast::Filter<'_>) -> Option<Expr> {
        let call = self.call(Role::Filter, node.name, node.expr.as_ref(), &node.args)?;
        match call.function.name {
            "default" => {}
            "regex_replace" => return self.regex_replace(call, node),
            _ => return Some(Expr::Call(call)),
        }
        let fallback = node.args.iter().find_map(|argument| match argument {
            ast::CallArg::Pos(expr) => Some(self.range(expr)),
            ast::CallArg::Kwarg(name, expr) => (*name == call.function.parameters[1].name).then(|| self.range(expr)),
            _ => None,
        });
        let place = self.place(fallback.unwrap_or_else(|| self.range_of(node.name)));
        let mut arguments = call.arguments.into_iter().map(|argument| argument.map(Box::new));
        let mut next = || arguments.next().flatten();
        Some(Expr::Default { value: next()?, fallback: next(), lax: next(), place })
    }

    /// The pattern is the author's alone, and compiled here.
    fn regex_replace(&mut self, call: Call, node: &ast::Filter<'_>) -> Option<Expr> {
        let mut arguments = call.arguments.into_iter().flatten();
        let (value, pattern, replacement) = (arguments.next()?, arguments.next()?, arguments.next()?);
        let place = node.args.iter().find_map(|argument| match argument {
            ast::CallArg::Pos(expr) | ast::CallArg::Kwarg("pattern", expr) => Some(self.range(expr)),
            _ => None,
        });
        let place = place.unwrap_or_else(|| self.range_of(node.name));
        let Expr::Literal(Value::String(source)) = pattern else {
            let help = "it is compiled when the mapping is loaded, and never comes from data";
            return self.refused("SE0212", place, "a pattern is a literal text", help);
        };
        match Pattern::compile(&source) {
            Ok(pattern) => Some(Expr::RegexReplace {
                value: Box::new(value),
                pattern: Box::new(pattern),
                replacement: Box::new(replacement),
            }),
            Err(why) => {
                self.report("SE0212", place, format!("this is no regular expression: {why}"));
                None
            }
        }
    }

    pub fn function(&mut self, node: &ast::Call<'_>) -> Option<Expr> {
        match &node.expr {
            ast::Expr::Var(name) => self.call(Role::Function, name.id, None, &node.args).map(Expr::Call),
            ast::Expr::GetAttr(method) => {
                let range = self.range_of(method.name);
                let finding =
                    self.report("SE0206", range, format!("values have no methods, so no `{}()`", method.name));
                if Role::Filter.find(method.name).is_some() {
                    finding.help = Some(format!("`{0}` is a filter: write `… | {0}`", method.name));
                }
                None
            }
            other => {
                let range = self.range(other);
                self.report("SE0206", range, "only a function can be called");
                None
            }
        }
    }

    /// Looks a name up and puts each argument into its parameter's place.
    pub fn call(
        &mut self,
        role: Role,
        name: &str,
        subject: Option<&ast::Expr<'_>>,
        given: &[ast::CallArg<'_>],
    ) -> Option<Call> {
        let found = self.findings.len();
        let subject = subject.map(|subject| self.lower(subject));
        let Some(function) = role.find(name) else {
            self.unknown_function(role, name);
            // What stands in the arguments is looked at all the same.
            for argument in given {
                if let ast::CallArg::Pos(expr) | ast::CallArg::Kwarg(_, expr) = argument {
                    self.lower(expr);
                }
            }
            return None;
        };
        let arguments = function.parameters.iter().map(|_| None).collect();
        let place = self.place(self.range_of(name));
        let mut call = Call { function, arguments, rest: Vec::new(), place };
        if let Some(subject) = subject {
            call.put(subject);
        }
        let mut all_fit = true;
        for argument in given {
            all_fit &= self.argument(&mut call, argument);
        }
        if let Some(missing) = call.missing().filter(|_| all_fit) {
            let range = self.range_of(name);
            let help = format!("write `{}`", function.usage());
            return self.refused("SE0205", range, format!("`{name}` needs `{missing}`"), help);
        }
        self.check_nested_name(&call, given);
        (self.findings.len() == found).then_some(call)
    }

    /// Whether an argument has a place.
    fn argument(&mut self, call: &mut Call, argument: &ast::CallArg<'_>) -> bool {
        let function = call.function;
        let (range, problem) = match argument {
            ast::CallArg::Pos(expr) => {
                let lowered = self.lower(expr);
                if call.put(lowered) {
                    return true;
                }
                (self.range(expr), format!("`{}` takes fewer arguments", function.name))
            }
            ast::CallArg::Kwarg(name, expr) => {
                let lowered = self.lower(expr);
                if call.put_keyword(name, lowered) {
                    return true;
                }
                (self.range_of(name), format!("`{}` takes no argument `{name}`, or has it already", function.name))
            }
            ast::CallArg::PosSplat(expr) | ast::CallArg::KwargSplat(expr) => {
                (self.range(expr), "arguments must be written one by one".to_owned())
            }
        };
        self.report("SE0205", range, problem).help = Some(format!("write `{}`", function.usage()));
        false
    }

    /// `map("upper")` and `select("none")` name a filter or test in a string.
    fn check_nested_name(&mut self, call: &Call, given: &[ast::CallArg<'_>]) {
        let Call { function, arguments, .. } = call;
        let named = function.parameters.iter().position(|parameter| matches!(parameter.name, "filter" | "test"));
        let Some(position) = named else { return };
        let role = if function.name == "map" { Role::Filter } else { Role::Test };
        let Some(Some(Expr::Literal(Value::String(name)))) = arguments.get(position) else { return };
        let place = match given.get(position - 1) {
            Some(ast::CallArg::Pos(expr) | ast::CallArg::Kwarg(_, expr)) => self.range(expr),
            _ => self.range_of(function.name),
        };
        match role.find(name) {
            Some(found) if found.name == "regex_replace" => {
                self.report("SE0212", place, "`regex_replace` has a pattern that is compiled at load").help =
                    Some("in a template, `$each` can call it for each item".to_owned());
                return;
            }
            Some(_) => return,
            None => {}
        }
        let help = match replacement(role, name) {
            Some(instead) => Some(format!("write `{instead}`")),
            None => meant(name, &role.names()),
        };
        let message = format!("there is no {} `{name}`", role.as_str());
        self.report(unknown_code(role), place, message).help = help;
    }

    fn unknown_function(&mut self, role: Role, name: &str) {
        let replaced = replacement(role, name);
        let elsewhere =
            Role::ALL.into_iter().filter(|other| *other != role).find_map(|other| Some((other, other.find(name)?)));
        let help = match (replaced, elsewhere) {
            (Some(instead), _) => Some(format!("write `{instead}`")),
            (None, Some((other, function))) => {
                Some(format!("`{name}` is a {}: write `{}`", other.as_str(), function.usage()))
            }
            (None, None) => meant(name, &role.names()),
        };
        let range = self.range_of(name);
        self.report(unknown_code(role), range, format!("there is no {} `{name}`", role.as_str())).help = help;
    }
}

/// Names of Jinja and of other template languages, with what the language has for them.
const REPLACED: &[(Role, &str, &str)] = &[
    (Role::Filter, "attr", "x[\"name\"]"),
    (Role::Filter, "base64", "… | b64encode"),
    (Role::Filter, "bool", "x == \"true\""),
    (Role::Filter, "count", "… | length"),
    (Role::Filter, "d", "… | default(…)"),
    (Role::Filter, "dict", "{\"key\": value}"),
    (Role::Filter, "dictsort", "… | items | sort(attribute=\"0\")"),
    (Role::Filter, "filesizeformat", "… | as_quantity"),
    (Role::Filter, "format", "a ~ \"-\" ~ b"),
    (Role::Filter, "lines", "… | split(\"\\n\")"),
    (Role::Filter, "lookup", "x[\"name\"]"),
    (Role::Filter, "quote", "… | tojson"),
    (Role::Filter, "slice", "x[:3]"),
    (Role::Filter, "title", "… | capitalize"),
    (Role::Filter, "to_json", "… | tojson"),
    (Role::Filter, "to_yaml", "… | toyaml"),
    (Role::Filter, "truncate", "x[:20]"),
    (Role::Filter, "wordcount", "… | split | length"),
    (Role::Function, "dict", "{\"key\": value}"),
    (Role::Function, "has", "x is defined"),
    (Role::Function, "len", "… | length"),
    (Role::Function, "lookup", "related.<id>"),
    (Role::Function, "size", "… | length"),
    (Role::Test, "==", "… is eq(other)"),
    (Role::Test, "containing", "\"part\" in …"),
    (Role::Test, "divisibleby", "… % 2 == 0"),
    (Role::Test, "empty", "… | length == 0"),
    (Role::Test, "equalto", "… is eq(other)"),
    (Role::Test, "even", "… % 2 == 0"),
    (Role::Test, "false", "… == false"),
    (Role::Test, "greaterthan", "… is gt(other)"),
    (Role::Test, "iterable", "… is sequence"),
    (Role::Test, "lessthan", "… is lt(other)"),
    (Role::Test, "lower", "… == … | lower"),
    (Role::Test, "null", "… is none"),
    (Role::Test, "odd", "… % 2 == 1"),
    (Role::Test, "sameas", "… is eq(other)"),
    (Role::Test, "true", "… == true"),
    (Role::Test, "undefined", "… is not defined"),
    (Role::Test, "upper", "… == … | upper"),
];

fn replacement(role: Role, name: &str) -> Option<&'static str> {
    REPLACED.iter().find(|(of, known, _)| *of == role && *known == name).map(|(.., instead)| *instead)
}

fn unknown_code(role: Role) -> &'static str {
    match role {
        Role::Filter => "SE0202",
        Role::Function => "SE0203",
        Role::Test => "SE0204",
    }
}

impl Call {
    /// Puts an argument into the first place that is free, and says whether there is one.
    fn put(&mut self, value: Expr) -> bool {
        let mut places = self.arguments.iter_mut().zip(self.function.parameters);
        match places.find(|(place, parameter)| place.is_none() && !parameter.keyword) {
            Some((place, _)) => *place = Some(value),
            None if self.function.rest => self.rest.push(value),
            None => return false,
        }
        true
    }

    /// Puts an argument into the place of this name, and says whether that was free.
    fn put_keyword(&mut self, name: &str, value: Expr) -> bool {
        let mut places = self.arguments.iter_mut().zip(self.function.parameters);
        let Some((place, _)) = places.find(|(place, parameter)| parameter.name == name && place.is_none()) else {
            return false;
        };
        *place = Some(value);
        true
    }

    fn missing(&self) -> Option<&'static str> {
        let mut places = self.arguments.iter().zip(self.function.parameters);
        places.find(|(place, parameter)| parameter.required && place.is_none()).map(|(_, parameter)| parameter.name)
    }
}
