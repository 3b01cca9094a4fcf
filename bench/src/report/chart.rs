//! The pictures of the HTML report: speeds beside native and published ones, and throughput by message size.
//!
//! Colours are numbers that the page's style replaces, so that one picture serves light, dark and print.

use std::collections::BTreeMap;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::escape;
use crate::catalogue;
use crate::record::{Better, Record, ResultRecord, RowRecord};
use crate::stats::Summary;

/// One picture.
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// How to read it.
    pub description: String,
    svg: String,
}

impl Chart {
    /// The element, with a name and a description for screen readers; `label` makes their ids unique.
    pub fn svg(&self, label: &str) -> String {
        let body = self.svg.split_once('>').map_or("", |(_, body)| body);
        let (width, height) = (WIDTH, size(&self.svg));
        let (title, text) = (escape(&self.title), escape(&self.description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{label}t {label}d\"><title id=\"{label}t\">{title}</title>\
             <desc id=\"{label}d\">{text} The table below has the figures.</desc>{body}"
        )
    }
}

/// The height that plotters has written into the root element.
fn size(svg: &str) -> u32 {
    let found = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
    found.and_then(|text| text.parse().ok()).unwrap_or(400)
}

const WIDTH: u32 = 960;
const LEFT: u32 = 170;
/// Height of a row of one engine, and of each further one in it.
const ROW: u32 = 26;
const LANE: u32 = 6;
const INK: RGBColor = RGBColor(0, 0, 1);
const LINE: RGBColor = RGBColor(0, 0, 2);
const SYSTEMS: [&str; 3] = ["DS10", "ES47", "AlphaVM"];

fn engine_colour(index: usize) -> RGBColor {
    RGBColor(0, 0, 0x10 + (index % 7) as u8)
}

fn system_colour(index: usize) -> RGBColor {
    RGBColor(0, 0, 0x20 + index as u8)
}

/// A point with its error bar, relative to the base.
struct Mark {
    series: usize,
    at: f64,
    interval: (f64, f64),
}

/// All pictures of a record.
pub fn charts(record: &Record) -> anyhow::Result<Vec<Chart>> {
    let mut charts = Vec::new();
    let engines = record.engines();
    let base = if engines.contains(&"native") { Some("native") } else { engines.first().copied() };
    let Some(base) = base else { return Ok(charts) };
    let mut suites: Vec<&str> = Vec::new();
    for row in record.rows.iter().filter(|row| message_size(row).is_none()) {
        if !suites.contains(&row.suite.as_str()) {
            suites.push(&row.suite);
        }
    }
    for suite in suites {
        let rows: Vec<&RowRecord> = record
            .rows
            .iter()
            .filter(|row| row.suite == suite && message_size(row).is_none())
            .collect();
        charts.extend(comparison(suite, &rows, &engines, base)?);
    }
    charts.extend(messages(record, &engines)?);
    Ok(charts)
}

fn right<'a>(row: &'a RowRecord, engine: &str) -> Option<(&'a ResultRecord, Summary)> {
    let result = row.result(engine).filter(|result| result.verified)?;
    Some((result, Summary::new(&result.samples)?))
}

/// Speed beside the base's, for each engine and published system that has a figure.
fn marks(row: &RowRecord, engines: &[&str], base: &str) -> Vec<Mark> {
    let Some((_, own)) = right(row, base) else { return Vec::new() };
    let speed = |value: f64| match row.better {
        Better::Higher => value / own.median,
        Better::Lower => own.median / value,
    };
    let mut marks = Vec::new();
    for (series, engine) in engines.iter().enumerate() {
        if let Some((_, summary)) = right(row, engine) {
            let (a, b) = (speed(summary.interval.0), speed(summary.interval.1));
            let interval = (a.min(b), a.max(b));
            marks.push(Mark { series, at: speed(summary.median), interval });
        }
    }
    if row.comparable_to_published {
        let published = catalogue::published().remove(row.row.as_str()).unwrap_or_default();
        for (index, value) in
            [published.ds10, published.es47, published.alphavm].into_iter().enumerate()
        {
            if let Some(at) = value.map(speed) {
                marks.push(Mark { series: engines.len() + index, at, interval: (at, at) });
            }
        }
    }
    marks.retain(|mark| mark.interval.0 > 0.0 && mark.interval.1.is_finite());
    marks
}

fn comparison(
    suite: &str,
    rows: &[&RowRecord],
    engines: &[&str],
    base: &str,
) -> anyhow::Result<Option<Chart>> {
    let all: Vec<Vec<Mark>> = rows.iter().map(|row| marks(row, engines, base)).collect();
    let ends = all.iter().flatten().flat_map(|mark| [mark.interval.0, mark.interval.1]);
    let (low, high) = ends.fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    if high == 0.0 {
        return Ok(None);
    }
    let mut used: Vec<usize> = all.iter().flatten().map(|mark| mark.series).collect();
    used.sort_unstable();
    used.dedup();
    // Each series has a lane of its own in every row, so that no mark hides another.
    let row_height = ROW + LANE * (used.len() as u32 - 1);
    let height = 96 + row_height * rows.len() as u32;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        legend(&area, engines, &used)?;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(40)
            .margin_right(20)
            .x_label_area_size(44)
            .y_label_area_size(LEFT)
            .build_cartesian_2d((low / 1.3..high * 1.3).log_scale(), 0.0..rows.len() as f64)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(0)
            .x_desc(format!("speed, {base} = 1 (logarithmic)"))
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(LINE)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(drawing)?;
        for at in ticks(low / 1.3, high * 1.3) {
            let line = PathElement::new([(at, 0.0), (at, rows.len() as f64)], LINE);
            chart.draw_series([line]).map_err(drawing)?;
            let (x, y) = chart.backend_coord(&(at, 0.0));
            area.draw_text(&label(at), &text(13, HPos::Center), (x, y + 12)).map_err(drawing)?;
        }
        for (index, (row, marks)) in rows.iter().zip(&all).enumerate() {
            let y = rows.len() as f64 - index as f64 - 0.5;
            let middle = chart.backend_coord(&(low.max(f64::MIN_POSITIVE), y)).1;
            let style = text(13, HPos::Right);
            area.draw_text(&row.row, &style, (LEFT as i32 - 8, middle)).map_err(drawing)?;
            let line = PathElement::new([(low / 1.3, y), (high * 1.3, y)], LINE);
            chart.draw_series([line]).map_err(drawing)?;
            for mark in marks {
                let (a, b) = mark.interval;
                let colour = colour(mark.series, engines.len());
                let lane = used.iter().position(|series| *series == mark.series).unwrap_or(0);
                let below = lane as f64 - (used.len() - 1) as f64 / 2.0;
                let y = y - below * f64::from(LANE) / f64::from(row_height);
                let bar = PathElement::new([(a, y), (b, y)], colour.stroke_width(3));
                chart.draw_series([bar]).map_err(drawing)?;
                let place = chart.backend_coord(&(mark.at, y));
                symbol(&area, place, mark.series, engines.len())?;
            }
        }
        area.present().map_err(drawing)?;
    }
    Ok(Some(Chart {
        title: format!("Speed beside {base}: {suite}"),
        description: format!(
            "Each line is a row, each mark an engine's median speed relative to {base}, further right is \
             faster; the bar through a mark is the 95 % interval of the median. Hollow marks are published \
             figures of other systems, not measured here."
        ),
        svg,
    }))
}

fn colour(series: usize, engines: usize) -> RGBColor {
    if series < engines { engine_colour(series) } else { system_colour(series - engines) }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Form and colour both tell series apart: colour alone would not do for everyone.
fn symbol(area: &Area, place: (i32, i32), series: usize, engines: usize) -> anyhow::Result<()> {
    let measured = series < engines;
    let colour = colour(series, engines);
    let style = if measured { colour.filled() } else { colour.stroke_width(2) };
    let drawn = match (measured, series % 3) {
        (false, _) => area.draw(&Circle::new(place, 6, style)),
        (true, 0) => area.draw(&Circle::new(place, 5, style)),
        (true, 1) => area.draw(&TriangleMarker::new(place, 6, style)),
        (true, _) => {
            let (x, y) = place;
            area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style))
        }
    };
    drawn.map_err(drawing)
}

fn text(size: u32, side: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center))
}

fn legend(area: &Area, engines: &[&str], used: &[usize]) -> anyhow::Result<()> {
    let mut x = 20;
    let names = engines.iter().chain(&SYSTEMS).enumerate();
    for (series, name) in names.filter(|(series, _)| used.contains(series)) {
        symbol(area, (x, 16), series, engines.len())?;
        area.draw_text(name, &text(13, HPos::Left), (x + 12, 16)).map_err(drawing)?;
        x += 34 + 8 * name.len() as i32;
    }
    Ok(())
}

/// The size of a ttcp row's messages.
fn message_size(row: &RowRecord) -> Option<f64> {
    row.row.strip_prefix("ttcp-")?.parse().ok().filter(|&size: &f64| size > 0.0)
}

/// Throughput by message size, and the processors' load where the rows tell it.
fn messages(record: &Record, engines: &[&str]) -> anyhow::Result<Vec<Chart>> {
    let mut rows: Vec<(f64, &RowRecord)> =
        record.rows.iter().filter_map(|row| Some((message_size(row)?, row))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, first)) = rows.first() else { return Ok(Vec::new()) };
    let mut curves = BTreeMap::new();
    for (series, engine) in engines.iter().enumerate() {
        let points =
            rows.iter().filter_map(|(size, row)| Some((*size, right(row, engine)?.1.median)));
        curves.insert(series, points.collect::<Vec<_>>());
    }
    let unit = &first.unit;
    let mut charts = vec![curve("ttcp: throughput by message size", unit, engines, &curves, true)?];
    for side in ["sender", "receiver"] {
        let mut curves = BTreeMap::new();
        for (series, engine) in engines.iter().enumerate() {
            let point = |(size, row): &(f64, &RowRecord)| {
                let metric = right(row, engine)?.0.metrics.get(&format!("{side}_cpu"))?;
                Some((*size, crate::stats::median(&metric.samples)?))
            };
            curves.insert(series, rows.iter().filter_map(point).collect::<Vec<_>>());
        }
        let title = format!("ttcp: {side}'s processor by message size");
        charts.push(curve(&title, "%", engines, &curves, false)?);
    }
    Ok(charts.into_iter().flatten().collect())
}

fn curve(
    title: &str,
    unit: &str,
    engines: &[&str],
    curves: &BTreeMap<usize, Vec<(f64, f64)>>,
    logarithmic: bool,
) -> anyhow::Result<Option<Chart>> {
    let points: Vec<(f64, f64)> = curves.values().flatten().copied().collect();
    let fit = |&(_, y): &(f64, f64)| y.is_finite() && (y > 0.0 || !logarithmic);
    if points.is_empty() || !points.iter().all(fit) {
        return Ok(None);
    }
    let ends = |get: fn(&(f64, f64)) -> f64| {
        points.iter().map(get).fold((f64::MAX, 0.0f64), |(a, b), x| (a.min(x), b.max(x)))
    };
    let ((left, right), (low, high)) = (ends(|p| p.0), ends(|p| p.1));
    // One scale for both kinds: the vertical one holds logarithms where it is asked to.
    let up = |y: f64| if logarithmic { y.log10() } else { y };
    let (floor, top) =
        if logarithmic { (up(low) - 0.1, up(high) + 0.1) } else { (0.0, high * 1.1 + 1.0) };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, 380)).into_drawing_area();
        let used: Vec<usize> =
            curves.iter().filter(|(_, points)| !points.is_empty()).map(|(at, _)| *at).collect();
        legend(&area, engines, &used)?;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(40)
            .margin_right(20)
            .x_label_area_size(44)
            .y_label_area_size(80)
            .build_cartesian_2d(
                (left / 1.2..right * 1.2).log_scale(),
                RangedCoordf64::from(floor..top),
            )
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .x_desc("bytes in a message (logarithmic)")
            .y_desc(if logarithmic { format!("{unit} (logarithmic)") } else { unit.to_owned() })
            .y_labels(if logarithmic { 0 } else { 10 })
            .y_label_formatter(&|y| label(*y))
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .axis_style(INK)
            .bold_line_style(LINE)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(drawing)?;
        for at in ticks(left / 1.2, right * 1.2) {
            chart
                .draw_series([PathElement::new([(at, floor), (at, top)], LINE)])
                .map_err(drawing)?;
            let (x, y) = chart.backend_coord(&(at, floor));
            area.draw_text(&label(at), &text(13, HPos::Center), (x, y + 12)).map_err(drawing)?;
        }
        let lines = if logarithmic { ticks(low / 1.2, high * 1.2) } else { Vec::new() };
        for at in lines {
            let ends = [(left / 1.2, up(at)), (right * 1.2, up(at))];
            chart.draw_series([PathElement::new(ends, LINE)]).map_err(drawing)?;
            let (x, y) = chart.backend_coord(&ends[0]);
            area.draw_text(&label(at), &text(13, HPos::Right), (x - 8, y)).map_err(drawing)?;
        }
        for (&series, points) in curves {
            let line = points.iter().map(|&(x, y)| (x, up(y))).collect::<Vec<_>>();
            let path = LineSeries::new(line.clone(), engine_colour(series).stroke_width(2));
            chart.draw_series(path).map_err(drawing)?;
            for point in line {
                symbol(&area, chart.backend_coord(&point), series, engines.len())?;
            }
        }
        area.present().map_err(drawing)?;
    }
    let description = "Each curve is an engine, each mark a message size.".to_owned();
    Ok(Some(Chart { title: title.to_owned(), description, svg }))
}

/// Drawing into a string fails for a fault of the drawing only.
fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw a chart: {error}")
}

/// Where a logarithmic axis has lines: at 1, 2 and 5 times powers of ten, or at these alone where it is long.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let digits: &[f64] = if high / low > 2e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = low.log10().floor() as i32..=high.log10().floor() as i32;
    let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
    all.filter(|at| (low..=high).contains(at)).collect()
}

/// A line's label: no more digits than the number has.
fn label(at: f64) -> String {
    let short = (at * 1e6).round() / 1e6;
    short.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_lines_at_numbers_that_people_know() {
        let labels = |low, high| ticks(low, high).into_iter().map(label).collect::<Vec<_>>();
        assert_eq!(labels(0.23, 1.4), ["0.5", "1"]);
        assert_eq!(labels(0.009, 0.3), ["0.01", "0.02", "0.05", "0.1", "0.2"]);
        assert_eq!(labels(1.0, 65536.0), ["1", "10", "100", "1000", "10000"]);
    }
}
