//! A picture as marks on a plane: what every way of writing it understands. Pixels to the right and down.

/// Where a text stands from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It has its middle there.
    Middle,
    /// It ends there.
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
    /// A filled outline, through which the rest is seen.
    Area {
        /// The outline.
        points: Vec<[f32; 2]>,
        /// Its colour.
        colour: Colour,
        /// How much of it is there, 0 to 1.
        opacity: f32,
    },
    /// Words.
    Text {
        /// The point of its base line.
        at: [f32; 2],
        /// Where it stands from there.
        anchor: Anchor,
        /// Height of the letters' em.
        size: f32,
        /// Its colour.
        colour: Colour,
        /// Turned to read upwards.
        is_upwards: bool,
        /// The words.
        text: String,
    },
}

/// Marks, in the order in which they are drawn, on white.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// What it shows, for those who do not see it.
    pub title: String,
    /// The marks.
    pub marks: Vec<Mark>,
}
