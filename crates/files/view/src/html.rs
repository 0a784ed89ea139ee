//! A picture as an HTML page: the SVG, as wide as the window, and remarks below it. The page loads nothing else.

use crate::picture::Picture;
use crate::svg::{escaped, svg};

/// The page. `remarks` are paragraphs below the picture.
pub fn html(picture: &Picture, remarks: &[String]) -> String {
    let paragraphs: String = remarks.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\nbody {{ margin: 2rem auto; max-width: 75rem; padding: 0 1rem; background: #fff; color: #333; \
         font: 15px/1.5 system-ui, sans-serif }}\nsvg {{ width: 100%; height: auto }}\n</style>\n{}{paragraphs}</html>\n",
        escaped(&picture.title),
        svg(picture)
    )
}
