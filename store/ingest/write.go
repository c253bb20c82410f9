package ingest

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/nearjob/nearjob/store"
)

// WriteCSV writes jobs as a CSV file that [Import] reads back to the same jobs,
// but for what a file does not say: their ID, Source and State. It ends at the first
// error of the sequence and returns it.
func WriteCSV(w io.Writer, jobs iter.Seq2[store.Job, error]) error {
	out := csv.NewWriter(w)
	header := []string{
		string(ID), string(Title), string(Description), string(URL), string(Category), string(Employer),
		string(Lat), string(Lng), string(Remote), string(Pay), string(Currency), string(PayPer), string(Posted), string(Expires),
	}
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for j, err := range jobs {
		if err != nil {
			return err
		}
		var lat, lng, pay, expires string
		if !j.Remote {
			lat, lng = strconv.FormatFloat(j.At.Lat, 'f', -1, 64), strconv.FormatFloat(j.At.Lng, 'f', -1, 64)
		}
		if j.Pay.Amount != 0 {
			pay = fmt.Sprintf("%d.%02d", j.Pay.Amount/100, j.Pay.Amount%100)
		}
		if !j.Expires.IsZero() {
			expires = j.Expires.Format(time.RFC3339Nano)
		}
		err := out.Write([]string{
			j.SourceID, j.Title, j.Description, j.URL, j.Category, j.Employer,
			lat, lng, strconv.FormatBool(j.Remote), pay, j.Pay.Currency, j.Pay.Per, j.Posted.Format(time.RFC3339Nano), expires,
		})
		if err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}
