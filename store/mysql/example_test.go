package mysql_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
)

func ExampleOpen() {
	ctx := context.Background()
	engine, err := mysql.Open(ctx, "mysql://nearjob:secret@db.example:3306/nearjob?tls=true", mysql.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	access := store.Access{
		Index: store.IndexLatLng,
		Rects: []geo.Rect{{South: 52.4, West: 13.2, North: 52.6, East: 13.6}},
	}
	statements, err := engine.Read(ctx, access, func(candidates []store.Candidate) error {
		fmt.Println(len(candidates), "candidates")
		return nil
	})
	fmt.Println(statements, "statements", err)
}
