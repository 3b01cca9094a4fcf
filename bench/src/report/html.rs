//! The report as one page: nothing from elsewhere, readable in light and dark, on a phone, in print, by keyboard and by screen reader.

use std::fmt::Write as _;
use std::io::Write;

use super::ReportWriter;
use super::view::{self, Grid, View};
use super::{chart, escape};
use crate::record::Record;

/// Writes the page.
pub struct Html;

const STYLE: &str = include_str!("page.css");

impl ReportWriter for Html {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        let mut page = String::new();
        let title = match records {
            [one] => format!("axplab on {}", one.host.cpu),
            several => format!("axplab on {} hosts", several.len()),
        };
        let title = escape(&title);
        write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the results</a>\n\
             <header><h1>{title}</h1></header>\n<main id=\"main\">\n"
        )?;
        let mut number = 0;
        if let Some(grid) = view::hosts(records) {
            table(&mut page, &grid, "2", &mut number);
        }
        for (index, record) in records.iter().enumerate() {
            host(&mut page, record, index, records.len(), &mut number)?;
        }
        page.push_str("</main>\n</body>\n</html>\n");
        out.write_all(page.as_bytes())?;
        Ok(())
    }
}

fn host(
    page: &mut String,
    record: &Record,
    index: usize,
    hosts: usize,
    number: &mut usize,
) -> anyhow::Result<()> {
    let view = View::new(record);
    let heading =
        if hosts > 1 { format!("Host {}", index + 1) } else { "Machine and build".to_owned() };
    writeln!(page, "<h2>{heading}</h2>\n<ul class=\"plain\">")?;
    for line in &view.head {
        writeln!(page, "<li>{}</li>", escape(line))?;
    }
    let host = &record.host;
    let known = [
        (
            "memory",
            host.memory.map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))),
        ),
        ("frequency governor", host.governor.clone()),
        ("load before measuring", host.load.map(|load| format!("{load:.2}"))),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            writeln!(page, "<li>{name}: {}</li>", escape(&value))?;
        }
    }
    page.push_str("</ul>\n");
    list(page, "Errors", "error", &view.errors);
    list(page, "Warnings", "warning", &view.warnings);
    let cells: Vec<_> = record.warnings.iter().filter(|warning| warning.row.is_some()).collect();
    if !cells.is_empty() {
        writeln!(
            page,
            "<details><summary>All {} warnings on single cells</summary><ul>",
            cells.len()
        )?;
        for warning in cells {
            let place = [&warning.row, &warning.engine].map(|name| name.as_deref().unwrap_or("-"));
            let line =
                format!("{} on {}: {} ({})", place[0], place[1], warning.message, warning.kind);
            writeln!(page, "<li>{}</li>", escape(&line))?;
        }
        page.push_str("</ul></details>\n");
    }
    for chart in chart::charts(record)? {
        *number += 1;
        let (title, text) = (escape(&chart.title), escape(&chart.description));
        let label = format!("c{number}");
        // The picture scrolls on a narrow screen, and so has to take the keyboard's focus.
        writeln!(
            page,
            "<h3>{title}</h3>\n<p>{text}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Chart: {title}\">{}</div>",
            chart.svg(&label)
        )?;
    }
    for grid in &view.grids {
        table(page, grid, "3", number);
    }
    if let Some(grid) = view::tiers(record) {
        table(page, &grid, "3", number);
    }
    list(page, "Notes", "note", &view.notes);
    Ok(())
}

fn table(page: &mut String, grid: &Grid, level: &str, number: &mut usize) {
    *number += 1;
    let title = escape(&grid.title);
    let _ = write!(
        page,
        "<h{level} id=\"t{number}\">{title}</h{level}>\n<div class=\"scroll\" tabindex=\"0\" \
         role=\"region\" aria-labelledby=\"t{number}\"><table>\n<thead><tr>"
    );
    for cell in &grid.header {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(cell));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &grid.rows {
        page.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match index {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ if index < grid.text_columns => write!(page, "<td class=\"text\">{cell}</td>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn list(page: &mut String, title: &str, class: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<section class=\"{class}\"><h3>{title}</h3><ul>");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul></section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::record;

    #[test]
    fn the_page_is_whole_small_and_takes_nothing_from_elsewhere() {
        let rows: Vec<String> =
            crate::catalogue::rows().iter().map(|row| row.name.clone()).collect();
        let mut names: Vec<&str> = rows.iter().map(String::as_str).collect();
        names.extend(["ttcp-1", "ttcp-64", "ttcp-65536"]);
        let samples = [9.0, 10.0, 11.0];
        let engines = ["native", "interp", "baseline", "opt", "auto", "qemu-alpha"];
        let engines: Vec<(&str, &[f64])> =
            engines.iter().map(|name| (*name, samples.as_slice())).collect();
        let mut one = record(&names, &engines);
        one.host.cpu = "<script>alert('x')</script>".into();
        one.rows[0].results[1].error = Some("a \"bad\" & <b>wrong</b> result".into());
        let mut out = Vec::new();
        Html.write(&[one.clone()], &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
        for banned in ["<script", "<link", "src=", "@import", "url(", "href=\"http", "<b>"] {
            assert!(!page.contains(banned), "{banned}");
        }
        for needed in ["<svg", "role=\"img\"", "<title", "prefers-color-scheme", "ttcp", "DS10"] {
            assert!(page.contains(needed), "{needed}");
        }
        for name in ["svg", "table", "ul", "section", "h2", "h3", "div"] {
            let count = |text: &str| page.matches(text).count();
            let opened = count(&format!("<{name}>")) + count(&format!("<{name} "));
            assert_eq!(opened, count(&format!("</{name}>")), "{name}");
        }
    }
}
