//! How much there is to sync.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, ensure};

#[derive(Clone, Copy)]
pub struct Size {
    pub objects: usize,
    pub workspaces: usize,
    pub targets: usize,
    /// Each is for an export of its own, which a share of the workspaces binds, and has one of the targets.
    pub mappings: usize,
}

impl Size {
    pub fn of(objects: usize) -> Size {
        Size { objects, workspaces: objects.div_ceil(100), targets: 1, mappings: 1 }
    }
}

/// `OBJECTS[/WORKSPACES[/TARGETS/MAPPINGS]]`
impl FromStr for Size {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Size> {
        let numbers: Vec<usize> = text.split('/').map(str::parse).collect::<Result<_, _>>()?;
        let size = match numbers[..] {
            [objects] => Size::of(objects),
            [objects, workspaces] => Size { workspaces, ..Size::of(objects) },
            [objects, workspaces, targets, mappings] => Size { objects, workspaces, targets, mappings },
            _ => anyhow::bail!("one, two or four numbers are needed"),
        };
        ensure!(
            size.objects > 0 && size.workspaces > 0 && size.targets > 0 && size.mappings > 0,
            "there is nothing to do"
        );
        Ok(size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { objects, workspaces, targets, mappings } = self;
        write!(f, "{objects} objects in {workspaces} workspaces")?;
        if *mappings > 1 { write!(f, ", {targets} targets, {mappings} mappings") } else { Ok(()) }
    }
}
