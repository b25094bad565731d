//! The tutorial as steps that can be followed; read by `tests/verbs` and, for what needs servers, by `tests/e2e`.

/// Something that the tutorial has its reader do, or see.
#[derive(Debug)]
pub enum Step {
    File {
        name: String,
        text: String,
    },
    Commands {
        text: String,
        kind: Commands,
    },
    /// A part of what the commands before it print.
    Output(String),
}

/// What is expected of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    Succeed,
    Fail,
    /// Need a kcp, a cluster and kubectl.
    OnServers,
}

/// The code blocks of the page that mean something, in order.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    let mut mark = "";
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            mark = if line.is_empty() { mark } else { line };
            continue;
        };
        let text: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        let name = mark.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
        steps.push(match (language, name) {
            ("yaml", Some(name)) => Step::File { name: name.to_owned(), text },
            ("sh", None) => Step::Commands { text, kind: Commands::Succeed },
            ("sh fails", None) => Step::Commands { text, kind: Commands::Fail },
            ("sh on servers", None) => Step::Commands { text, kind: Commands::OnServers },
            ("text", None) if mark == "<!-- output -->" => Step::Output(text),
            _ => panic!("what is this block for? {mark}\n{text}"),
        });
        mark = "";
    }
    steps
}
