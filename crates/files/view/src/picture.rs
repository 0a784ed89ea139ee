//! A picture as marks: what SVG, PNG and HTML are written from. Coordinates are pixels to the right and down.

/// Which part of a text is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// Red, green, blue.
pub type Colour = [u8; 3];

/// One mark.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A filled rectangle.
    Box {
        /// Left, top, width, height.
        place: [f32; 4],
        /// Its colour.
        colour: Colour,
    },
    /// A line through points.
    Line {
        /// The points.
        points: Vec<[f32; 2]>,
        /// Its colour.
        colour: Colour,
        /// Its width.
        width: f32,
    },
    /// A filled outline that lets marks below it show through.
    Area {
        /// The outline.
        points: Vec<[f32; 2]>,
        /// Its colour.
        colour: Colour,
        /// Its opacity, 0 to 1.
        opacity: f32,
    },
    /// A line with its own opacity, perhaps of dashes. Its ends are flat.
    Stroke {
        /// The points.
        points: Vec<[f32; 2]>,
        /// Its colour.
        colour: Colour,
        /// Its opacity, 0 to 1.
        opacity: f32,
        /// Its width.
        width: f32,
        /// Lengths of dashes and gaps in turn; empty for a whole line.
        dashes: Vec<f32>,
        /// Where in these it begins.
        offset: f32,
    },
    /// A filled outline whose colour changes from top to bottom.
    Gradient {
        /// The outline.
        points: Vec<[f32; 2]>,
        /// Colours with opacity at the top and at the bottom.
        colours: [[u8; 4]; 2],
        /// Where those colours are.
        span: [f32; 2],
    },
    /// A text.
    Text {
        /// A point of its base line.
        at: [f32; 2],
        /// Which part of the text is at that point.
        anchor: Anchor,
        /// Size of the font.
        size: f32,
        /// Its colour.
        colour: Colour,
        /// It is turned to read upwards.
        is_upwards: bool,
        /// The text.
        text: String,
    },
}

/// The letters of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Letters {
    /// DejaVu Sans.
    #[default]
    Sans,
    /// DejaVu Sans Mono: every letter has the same width.
    Mono,
}

/// Marks on white, in the order in which they are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// What it shows, for people who cannot see it.
    pub title: String,
    /// The letters of its texts.
    pub letters: Letters,
    /// The marks.
    pub marks: Vec<Mark>,
}
