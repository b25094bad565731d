//! Rows under a head, as kubectl shows them.

use crate::object::one_line;

/// Columns as wide as their widest cell, three spaces between, none behind the last. Without rows, nothing.
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let shown = |row: [String; N]| row.map(|cell| one_line(&cell).into_owned());
    let (head, rows): (_, Vec<_>) = (head.map(str::to_owned), rows.into_iter().map(shown).collect());
    if rows.is_empty() {
        return String::new();
    }
    let all = || std::iter::once(&head).chain(&rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    all().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_cell_makes_no_row() {
        assert_eq!(table(["X"], [["a\nb".to_owned()]]), "X\na\\nb\n");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["a".to_owned(), "long".to_owned()], ["ünü".to_owned(), String::new()]];
        assert_eq!(table(["X", "Y"], rows), "X     Y\na     long\nünü\n");
    }
}
