//! What the pages of reports share: their style, escapes, and elements that they repeat.

use spag_selfplay::is_numeric;

/// The style of the pages: light or dark as the reader prefers, from 360 pixels on. Colours are variables.
pub const STYLE: &str = include_str!("page.css");

/// Escapes text for element content and quoted attributes. Characters that are invisible or change the direction of writing
/// become visible, as in the text report; newlines and tabs stay.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // HTML does not allow control characters.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            '\n' | '\t' => out.push(c),
            c => out.push_str(&spag_io::escape(c.encode_utf8(&mut buffer))),
        }
    }
    out
}

/// A whole page, without scripts, fonts or external links. `title` is plain text, `main` is HTML.
pub fn page(title: &str, main: &str) -> String {
    let title = escape(title);
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{main}
</main>
</body>
</html>
"#
    )
}

/// A table with a caption, whose first column has row headers. `head` and `rows` are plain text.
pub fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let class = |column: usize| if is_numeric(rows, column) { r#" class="number""# } else { "" };
    let classes: Vec<&str> = (0..head.len()).map(class).collect();
    let class = |column: usize| classes.get(column).copied().unwrap_or_default();
    let head = head.iter().enumerate();
    let head: String =
        head.map(|(column, cell)| format!(r#"<th scope="col"{}>{}</th>"#, class(column), escape(cell))).collect();
    let rows: String = rows
        .iter()
        .map(|row| {
            let cells: String = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match column {
                    0 => format!(r#"<th scope="row">{}</th>"#, escape(cell)),
                    _ => format!("<td{}>{}</td>", class(column), escape(cell)),
                })
                .collect();
            format!("<tr>{cells}</tr>")
        })
        .collect();
    format!(
        r#"<div class="scroll" tabindex="0"><table><caption><span>{}</span></caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"#,
        escape(caption)
    )
}

/// A figure with heading, legend, chart and note. The legend has the colour, the shape and the name of each series.
pub fn figure(title: &str, legend: &[(&str, &str, &str)], svg: &str, note: &str) -> String {
    let legend: String = legend
        .iter()
        .map(|(colour, shape, name)| {
            format!(r#"<li><span class="key {shape}" style="--key:var(--{colour})"></span>{}</li>"#, escape(name))
        })
        .collect();
    format!(
        r#"<figure><h3>{}</h3><ul class="legend">{legend}</ul>{svg}<figcaption>{}</figcaption></figure>"#,
        escape(title),
        escape(note)
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escape_turns_markup_into_text() {
        assert_eq!(
            escape("<script>alert('a & \"b\"')</script>\u{7}"),
            "&lt;script&gt;alert(&#39;a &amp; &quot;b&quot;&#39;)&lt;/script&gt;\u{fffd}"
        );
        assert_eq!(escape("a\u{202e}b\u{200b}\n日本語"), "a\\u{202e}b\\u{200b}\n日本語");
    }
}
