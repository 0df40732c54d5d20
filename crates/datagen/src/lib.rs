//! datagen
