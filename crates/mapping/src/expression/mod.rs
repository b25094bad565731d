//! Expressions: `${{ }}` gives a value with its type, `{{ }}` and `{% %}` print into text.
//!
//! The syntax is Jinja's, read by minijinja's parser. What comes out of it is checked against the names that are
//! declared and the functions that exist (`registry`), and compiled to a tree of our own (`tree`), which is
//! evaluated on the JSON itself (`evaluate`). minijinja's machine does not run it: that was built and measured
//! (docs/internals/architecture.md). That both compute the same is a test.

mod budget;
mod call;
mod evaluate;
mod functions;
mod given;
mod names;
mod operators;
mod parse;
mod pattern;
mod recorder;
mod references;
mod registry;
mod resolve;
mod scope;
mod source;
mod text;
mod tokens;
mod tree;
mod value;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::diagnostic::Finding;
use crate::yaml::{Node, NodeValue, Scalar};

pub(crate) use budget::Budget;
pub use functions::quantity::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, number as quantity, quantity_scale};
pub(crate) use names::{NAMESPACE_READS, is_identifier, is_taken};
pub use names::{Names, Root, RootSet, VERDICT};
pub use recorder::{Recorder, Way};
pub use references::References;
pub(crate) use registry::{Gives, Role};
pub use scope::{ObjectState, Scope, Several};
pub(crate) use text::Piece;
pub use text::Text;
pub(crate) use tree::{Arithmetic, Base, Call, Comparison, Expr, Path, Segment};
pub use value::kind;

use evaluate::Evaluation;
use parse::Compiler;
use registry::Function;
use source::Form;
use value::Operand;

/// One compiled `${{ }}`.
#[derive(Debug)]
pub struct Expression {
    expr: Expr,
    source: String,
    /// Where it stands in the file.
    place: Range<usize>,
}

/// What an expression gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Evaluated {
    Value(Value),
    /// The key or item is to be left out.
    Omit,
    /// Nothing stands at this path: a positive fact.
    Absent(String),
}

/// Something that an expression can call, as its reference names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `filter`, `function` or `test`.
    pub role: &'static str,
    pub name: &'static str,
    /// `default([fallback], [lax])`: without what stands before `|` or `is`; no parentheses where nothing is left.
    pub text: String,
}

/// Everything that an expression can call, by role and name.
pub fn signatures() -> Vec<Signature> {
    Role::ALL.into_iter().flat_map(Role::functions).map(Function::signature).collect()
}

/// Why there is no value where there must be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrendered {
    /// Something declared is not there yet; says what.
    #[error("waiting for {0}")]
    Waiting(String),
    /// It cannot be evaluated; says why, never with a value that was read.
    #[error("{0}")]
    Failed(String),
}

impl Unrendered {
    /// A failure with its place. What is waited for names its own.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{place}: {why}")),
            waiting => waiting,
        }
    }
}

impl Expression {
    /// Compiles a scalar that is one `${{ }}`. A plain boolean, number or null is a constant expression (`when: true`).
    pub fn compile(node: &Arc<Node>, names: &Names, findings: &mut Vec<Finding>) -> Option<Self> {
        let constant = match &node.value {
            NodeValue::String(scalar) => match source::classify(scalar, findings)? {
                Form::Typed(range) => return Self::compile_typed(scalar, range, names, findings),
                Form::Literal | Form::Text => None,
            },
            NodeValue::Sequence(_) | NodeValue::Mapping(_) => None,
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => Some(node.to_json()),
        };
        let Some(constant) = constant else {
            let finding = Finding::new("SE0209", node.headline(), "an expression is expected here");
            findings.push(finding.help("write `${{ … }}` and nothing around it"));
            return None;
        };
        Some(Self { source: constant.to_string(), place: node.span.clone(), expr: Expr::Literal(constant) })
    }

    /// Whether a node is one `${{ }}`, or was meant to be.
    pub(crate) fn is_typed(node: &Node) -> bool {
        match &node.value {
            NodeValue::String(scalar) => {
                !matches!(source::classify(scalar, &mut Vec::new()), Some(Form::Literal | Form::Text))
            }
            _ => false,
        }
    }

    fn compile_typed(scalar: &Scalar, range: Range<usize>, names: &Names, findings: &mut Vec<Finding>) -> Option<Self> {
        let source = &scalar.text[range.clone()];
        let mut compiler = Compiler::new(scalar, source, range.start, names, findings);
        let expr = compiler.parse()?;
        let start = source.len() - source.trim_start().len();
        let place = compiler.place(start..source.trim_end().len());
        Some(Self { expr, place, source: source.trim().to_owned() })
    }

    pub fn evaluate(&self, scope: &Scope) -> Result<Evaluated, Unrendered> {
        self.evaluate_within(scope, &mut Budget::for_expression(scope))
    }

    /// As `evaluate`, paid out of a budget that others share.
    pub(crate) fn evaluate_within(&self, scope: &Scope, budget: &mut Budget) -> Result<Evaluated, Unrendered> {
        let mut evaluation = Evaluation::new(scope, budget);
        let evaluated = evaluation.evaluate(&self.expr);
        let delivered = evaluated.and_then(|operand| deliver(operand, scope.is_lenient(), budget));
        if let Ok(Evaluated::Value(Value::Bool(holds))) = delivered {
            scope.note(&self.place, Way::of_condition(holds));
        }
        if !matches!(delivered, Err(Unrendered::Waiting(_))) {
            scope.note(&self.place, Way::Evaluated);
        }
        delivered
    }

    /// Evaluates a condition, which must be true or false.
    pub fn holds(&self, scope: &Scope) -> Result<bool, Unrendered> {
        self.holds_within(scope, &mut Budget::for_expression(scope))
    }

    /// As `holds`, paid out of a budget that others share.
    pub(crate) fn holds_within(&self, scope: &Scope, budget: &mut Budget) -> Result<bool, Unrendered> {
        match self.evaluate_within(scope, budget)?.value()? {
            Value::Bool(value) => Ok(value),
            other => {
                Err(Unrendered::Failed(format!("`{}` must be true or false, and is {}", self.source, kind(&other))))
            }
        }
    }

    pub(crate) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Bytes of the file that hold it, without its braces.
    pub(crate) fn place(&self) -> &Range<usize> {
        &self.place
    }

    /// The expression as it is written, without its braces.
    pub fn source_text(&self) -> &str {
        &self.source
    }

    /// Everything it reads by name.
    pub fn references(&self) -> References {
        References::of([&self.expr])
    }
}

impl Evaluated {
    /// The value, where there must be one.
    pub fn value(self) -> Result<Value, Unrendered> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Omit => Err(Unrendered::omit()),
            Self::Absent(path) => Err(Unrendered::absent(&path)),
        }
    }
}

fn deliver(operand: Operand<'_>, lenient: bool, budget: &mut Budget) -> Result<Evaluated, Unrendered> {
    match operand {
        Operand::Omit => Ok(Evaluated::Omit),
        Operand::Absent(gap) => gap.deliver(lenient),
        Operand::Value(value) => budget.deliver(value).map(Evaluated::Value),
    }
}
