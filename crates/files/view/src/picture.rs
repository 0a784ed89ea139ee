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

/// Marks on white, in the order in which they are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// What it shows, for people who cannot see it.
    pub title: String,
    /// The marks.
    pub marks: Vec<Mark>,
}
